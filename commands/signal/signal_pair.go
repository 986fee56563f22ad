package signal

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/mdp/qrterminal/v3"
	"rsc.io/qr"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// PairParams holds where to write the QR code besides the terminal.
type PairParams struct {
	PNG string `json:"png,omitempty" desc:"PNG file to write the QR code to; the file must not exist yet" check:"min=1,max=4096"`
}

// PairResult is a code with which one phone becomes a device, and the address that contains the code.
type PairResult struct {
	Code      string `json:"code"`
	URL       string `json:"url"`
	ExpiresAt string `json:"expiresAt"`
	PNG       string `json:"png,omitempty"`

	noDaemon bool // for people only
}

var pairCommand = commands.Define(vocabulary, "signal pair", pair).With(commands.Traits{HereOnly: true})

// pair creates a code that is valid once, for five minutes. The phone becomes a device when it is approved.
func pair(ctx context.Context, env commands.Env, p PairParams) (PairResult, error) {
	if err := person.Here(ctx, env.Ledger); err != nil {
		return PairResult{}, err
	}
	address, err := questions.SignalURL(ctx, env.Ledger)
	if err != nil {
		return PairResult{}, err
	}
	if address == "" {
		return PairResult{},
			orchestrator.Errorf(orchestrator.Unavailable, "signal.url is not set, so phones cannot reach the app").
				WithHint("%s", person.NoAddressHint)
	}
	var picture *os.File
	if p.PNG != "" { // first, because a failure after the code was created would waste the code
		picture, err = os.OpenFile(p.PNG, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return PairResult{}, orchestrator.Errorf(orchestrator.Conflict, "png: the file %s already exists", p.PNG).
				WithHint("Specify another file, or remove the existing one")
		}
		if err != nil {
			return PairResult{},
				&orchestrator.Error{Code: orchestrator.InvalidParams, Message: "png: cannot create the file", Err: err}
		}
		defer picture.Close()
	}
	r := PairResult{PNG: p.PNG, noDaemon: commands.NoDaemon(ctx, env)}
	if r.Code, r.ExpiresAt, err = questions.StartPairing(ctx, env.Ledger); err == nil {
		r.URL = address + "/pair#c=" + r.Code
		err = draw(picture, r.URL)
	}
	if err != nil && picture != nil {
		err = errors.Join(err, os.Remove(p.PNG))
	}
	return r, err
}

// draw writes a text as a QR code to a file. It does nothing if picture is nil.
func draw(picture *os.File, text string) error {
	if picture == nil {
		return nil
	}
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return err
	}
	code.Scale = 8
	_, err = picture.Write(code.PNG())
	return errors.Join(err, picture.Sync())
}

// Text writes the QR code, and the code to type into an installed app that cannot scan it.
func (r PairResult) Text(w *terminal.Text) {
	var picture bytes.Buffer
	if w.ASCII {
		qrterminal.GenerateWithConfig(r.URL,
			qrterminal.Config{Level: qrterminal.M, Writer: &picture, BlackChar: "  ", WhiteChar: "##",
				QuietZone: qrterminal.QUIET_ZONE})
	} else {
		qrterminal.GenerateHalfBlock(r.URL, qrterminal.M, &picture)
	}
	w.Whole(terminal.Painted(picture.String() + "\n"))
	if r.noDaemon {
		w.Printf("%s\n", w.Paint(terminal.Yellow, "No daemon is running, so the phone cannot open the address. In another terminal, run `mailroom serve --phone 127.0.0.1:8420`."))
	}
	w.Printf("Scan the QR code with the phone, or open %s on the phone.\n", r.URL)
	w.Printf("Code: %s, valid for one use until %s. If the app is on the home screen of an iPhone, type the code into the app.\n",
		w.Paint(terminal.Bold, r.Code), r.ExpiresAt)
	w.Printf("Then approve the fingerprint that the phone shows: `mailroom signal device approve FINGERPRINT`\n")
	if r.PNG != "" {
		w.Printf("The QR code is in %s. Remove the file after pairing.\n", r.PNG)
	}
}
