package person

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/questions"
)

// maxSkew is how far a clock may be off. Push services reject a signature that expires more than 24 hours ahead, and
// a device could show an open question as expired.
const maxSkew = 2 * time.Minute

// Doctor reports what is missing between this machine and a phone: the address of the app, the daemon that serves it,
// keys, devices and their pushes, the key folder, the clock. It continues after a check that fails. It only reads,
// except that it creates the push keys if there are none. If the database is trusted, it requests the app from its
// address. If try is set, it first pushes a test to every device.
func Doctor(ctx context.Context, l *ledger.Ledger, try bool) overview.Findings {
	d := &doctor{ledger: l}
	if elsewhere, is := errors.AsType[*orchestrator.Error](Here(ctx, l)); is {
		d.Report("host", overview.Note, elsewhere.Message, elsewhere.Hint)
		return d.Findings
	}
	if try {
		d.trials(ctx)
	}
	d.address(ctx)
	d.pushKeys(ctx)
	d.folder()
	d.devices(ctx)
	d.replies(ctx)
	return d.Findings
}

// trials pushes a test to every device that can receive pushes.
func (d *doctor) trials(ctx context.Context) {
	trials, err := delivery.TryDevices(ctx, d.ledger)
	if err != nil {
		d.Fail("trials", "", err)
	} else if len(trials) == 0 {
		d.Report("trials", overview.Note, "no device to push to",
			"Approve a device, and turn on notifications in its app")
	}
	for _, t := range trials {
		device := strings.TrimPrefix(t.Agent, push.DevicePrefix)
		switch {
		case t.Delivered:
			d.ReportOf("trial", device, overview.Fine, "the push service accepted a test notification, which should appear on the phone now",
				"")
		case t.MessageID == "" || t.PutOff:
			d.ReportOf("trial", device, overview.Note, "no test notification arrived: "+t.Says, "")
		default:
			d.ReportOf("trial", device, overview.Problem, "a test notification did not arrive: "+t.Says, "To see the attempt, run `mailroom trace "+
				t.MessageID+"`")
		}
	}
}

type doctor struct {
	ledger *ledger.Ledger
	overview.Findings
}

// address checks that phones find the app at the address in the setting.
func (d *doctor) address(ctx context.Context) {
	const check = "address"
	url, err := questions.SignalURL(ctx, d.ledger)
	switch {
	case err != nil:
		d.Fail(check, "", err)
		return
	case url == "":
		d.Report(check, overview.Problem, "signal.url is not set, so phones cannot reach the app", NoAddressHint)
		return
	case !strings.HasPrefix(url, "https://"):
		d.Report(check, overview.Note, "only this machine can reach "+url+"; phones require an https address", NoAddressHint)
	default:
		d.Report(check, overview.Fine, url, "")
	}
	date, err := fetchManifest(ctx, url)
	if err != nil {
		d.Report("app", overview.Problem, "the app does not answer at "+url+": "+err.Error(),
			"Start `mailroom serve --phone ADDRESS`, and check that signal.url forwards to that address; see docs/phone.md")
		return
	}
	d.Report("app", overview.Fine, "the app answers at "+url, "")
	if skew := d.ledger.Now().Sub(date); !date.IsZero() && skew.Abs() > maxSkew {
		d.Report("clock", overview.Problem, fmt.Sprintf("the clocks of this machine and of %s differ by %s", url,
			skew.Abs().Round(time.Second)),
			"Correct the clock of this machine. Push services reject notifications that are signed with a wrong time")
	} else {
		d.Report("clock", overview.Fine, "the clocks of this machine and of "+url+" agree", "")
	}
}

// NoAddressHint is the advice on how to give the app an address for phones.
const NoAddressHint = "Phones load the app only from an https address. To set up such an address for `mailroom serve --phone`, use Tailscale, Caddy, or a tunnel (see docs/phone.md). " +
	"Then run `mailroom setting set signal.url https://HOST`. To try the app in a browser on this machine, run `mailroom setting set signal.url http://localhost:PORT`"

// fetchManifest requests the app's manifest, and returns the time in the response, if there is one.
func fetchManifest(ctx context.Context, url string) (date time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/manifest.webmanifest", nil)
	if err != nil {
		return date, err
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(request)
	if err != nil {
		return date, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return date, fmt.Errorf("the server answered %s", answer.Status)
	}
	var manifest struct {
		Name string `json:"name"`
	}
	content, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return date, err
	}
	if json.Unmarshal(content, &manifest) != nil || !strings.Contains(strings.ToLower(manifest.Name), "mailroom") {
		return date, errors.New("another program answers at that address")
	}
	date, _ = http.ParseTime(answer.Header.Get("Date")) // the header is optional
	return date, nil
}

func (d *doctor) pushKeys(ctx context.Context) {
	if _, err := questions.VAPIDPublicKey(ctx, d.ledger); err != nil {
		d.Fail("push keys", "", err)
		return
	}
	d.Report("push keys", overview.Fine, "the keys for push notifications exist", "")
}

// folder checks who can access the keys, and the key for kept alerts.
func (d *doctor) folder() {
	const check = "key folder"
	k, err := openKeys(d.ledger, false)
	if err != nil {
		d.Fail(check, "", err)
		return
	}
	defer k.close()
	if k.root == nil {
		d.Report(check, overview.Fine, "Mailroom creates the folder with the first device or question", "")
		return
	}
	err = fs.WalkDir(k.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				err = k.check(name, info, 0)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	if err == nil {
		_, err = k.kept(false)
	}
	if err != nil {
		d.Fail(check, "", err)
		return
	}
	d.Report(check, overview.Fine, "only its owner can access "+k.path, "")
}

// devices checks each device, and whether there is one at all.
func (d *doctor) devices(ctx context.Context) {
	const check = "devices"
	list, err := questions.Devices(ctx, d.ledger)
	if err != nil {
		d.Fail(check, "", err)
		return
	}
	k, err := openKeys(d.ledger, false)
	if err != nil {
		return // the finding about the folder covers the error
	}
	defer k.close()
	usable := 0
	for i := range list {
		if d.device(ctx, k, &list[i]) {
			usable++
		}
	}
	if usable == 0 {
		d.Report(check, overview.Problem, "no device can read encrypted questions, so Mailroom rejects questions",
			"Run `mailroom signal pair`, then "+approveHint)
	} else {
		d.Report(check, overview.Fine, orchestrator.Plural(usable, "device")+" can read encrypted questions", "")
	}
}

// approveHint does not contain a fingerprint: one from the table could belong to an attacker who wrote it there.
const approveHint = "`mailroom signal device approve FINGERPRINT`, with the fingerprint from the phone's screen"

// device checks one device, and reports whether it can read encrypted content.
func (d *doctor) device(ctx context.Context, k *keys, device *questions.Device) bool {
	switch device.State {
	case questions.DeviceWaiting:
		d.ReportOf("device", device.ID, overview.Note, device.Name+" has been waiting for approval since "+device.CreatedAt,
			"If the device is yours, run "+approveHint)
		return false
	case questions.DeviceActive:
	default:
		return false
	}
	if device.Kind != questions.DeviceNtfy {
		recipient, err := k.pinned(device)
		if err != nil {
			d.Fail("device", device.ID, err)
			return false
		}
		if recipient == nil {
			d.ReportOf("device", device.ID, overview.Problem, "the database lists "+device.Name+
				" as active, but nobody approved its key on this machine, so Mailroom does not use the device",
				"If the device is yours, run "+approveHint+". Otherwise run `mailroom signal device revoke "+device.ID+"`")
			return false
		}
	}
	last := "no push has been sent yet"
	if device.PushedAt != "" {
		last = "the last push at " + device.PushedAt + ": " + device.PushOutcome
	}
	problem := strings.Replace(device.PushProblem, " ", ": ", 1) // a time and a reason
	url, err := questions.SignalURL(ctx, d.ledger)
	switch {
	case device.PushProblem != "" && device.Kind == questions.DeviceNtfy:
		d.ReportOf("device", device.ID, overview.Problem, "pushes to "+device.Name+" have failed since "+problem,
			"To set its topic again, run `mailroom signal ntfy https://HOST/TOPIC`")
	case device.PushProblem != "":
		d.ReportOf("device", device.ID, overview.Problem, "pushes to "+device.Name+" have failed since "+problem,
			"Open the app on the device; the app then subscribes again")
	case device.Kind == questions.DeviceDesk:
		d.ReportOf("device", device.ID, overview.Fine,
			device.Name+" is a browser that shows questions and alerts while the console is open in it", "")
	case device.PushHost == "":
		d.ReportOf("device", device.ID, overview.Problem, device.Name+" gets no pushes because it has not subscribed",
			"Open the app on the device and allow notifications. On an iPhone, open it from the home screen")
	case device.PushedAt != "" && device.PushOutcome != "delivered":
		d.ReportOf("device", device.ID, overview.Problem, device.Name+": "+last,
			"To push a test, run `mailroom signal doctor --try`")
	case device.Kind == questions.DeviceNtfy && url == "" && err == nil: // else see the finding "address"
		d.ReportOf("device", device.ID, overview.Note, device.Name+" receives pushes through "+device.PushHost+
			", but these pushes have no buttons and no address, because signal.url is not set; "+last,
			"To set the address at which phones reach the app, run `mailroom setting set signal.url https://HOST`")
	default:
		d.ReportOf("device", device.ID, overview.Fine, device.Name+" receives pushes through "+device.PushHost+"; "+last, "")
	}
	return device.Kind != questions.DeviceNtfy
}

// replies finds files of questions that do not exist, and questions whose answers cannot be opened here.
func (d *doctor) replies(ctx context.Context) {
	const check = "answers"
	k, err := openKeys(d.ledger, false)
	if err != nil {
		return // the finding about the folder covers the error
	}
	defer k.close()
	names, err := k.names(repliesFolder)
	lost, err2 := unanswerable(ctx, d.ledger, k)
	if err = errors.Join(err, err2); err != nil {
		d.Fail(check, "", err)
		return
	}
	orphans := 0
	for _, name := range names {
		if !plainID(name) {
			continue
		}
		if _, err := questions.Get(ctx, d.ledger, name); orchestrator.CodeOf(err) == orchestrator.NotFound {
			orphans++
		}
	}
	if orphans > 0 {
		d.Report(check, overview.Note, "found keys of "+orchestrator.Plural(orphans, "question")+
			"; Mailroom never stored the questions, or they no longer exist",
			"No action needed: the daemon or the next question removes these keys")
	}
	if lost > 0 {
		d.Report(check, overview.Problem,
			fmt.Sprintf("cannot decrypt the answers to %s, because their keys are not in %s",
				orchestrator.Plural(lost, "open question"), k.path),
			"To list the questions, run `mailroom signal list`. Cancel each one with `mailroom signal cancel ID`, and have the agent ask again")
	}
	if orphans == 0 && lost == 0 {
		d.Report(check, overview.Fine, "every open question has its key", "")
	}
}
