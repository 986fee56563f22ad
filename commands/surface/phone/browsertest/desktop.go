package browsertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/godbus/dbus/v5"
)

// Names of the D-Bus interface. Source: Desktop Notifications Specification 1.3.
const (
	notificationsPath = "/org/freedesktop/Notifications"
	notificationsName = "org.freedesktop.Notifications"
)

// Notification is a notification that a program has shown or closed.
type Notification struct {
	ID       uint32
	Closed   bool // closed by the program; only ID is set
	Replaces bool // replaces an earlier one with this ID
	Summary  string
	Body     string
	Actions  []Action
	Urgency  byte // 0 low, 1 normal, 2 critical
	Silent   bool
}

// Action is a button of a notification. The label of the action for the notification itself has no meaning.
type Action struct{ Key, Label string }

// Desktop is a separate desktop session: a private bus with a daemon that passes notifications to the test.
type Desktop struct {
	t     *testing.T
	ctx   context.Context
	bus   *dbus.Conn
	addr  string
	last  atomic.Uint32
	notes feed[Notification]
}

// busConfig permits everything and starts no service of the machine.
const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:dir=%s</listen><auth>EXTERNAL</auth><policy context="default">
<allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`

// NewDesktop starts a session. It requires the program dbus-daemon.
func NewDesktop(ctx context.Context, t *testing.T) *Desktop {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, busConfig, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	_, address := run(ctx, t, regexp.MustCompile(`^unix:.*`), nil, "dbus-daemon", "--config-file="+config, "--print-address", "--nofork")
	d := &Desktop{t: t, ctx: ctx, addr: address[0]}
	var err error
	if d.bus, err = dbus.Connect(d.addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.bus.Close() })
	if err := d.bus.Export(daemonOf{d}, notificationsPath, notificationsName); err != nil {
		t.Fatal(err)
	}
	if _, err := d.bus.RequestName(notificationsName, dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	return d
}

// Next waits for the next notification that a program shows or closes.
func (d *Desktop) Next() Notification {
	d.t.Helper()
	n, err := d.notes.next(d.ctx, nil)
	if err != nil {
		d.t.Fatalf("no notification comes: %v", err)
	}
	return n
}

// Shown waits for the next notification that a program shows, and skips closed ones.
func (d *Desktop) Shown() Notification {
	d.t.Helper()
	n, err := d.notes.next(d.ctx, func(n Notification) bool { return !n.Closed })
	if err != nil {
		d.t.Fatalf("no notification comes: %v", err)
	}
	return n
}

// All returns all notifications so far, in order.
func (d *Desktop) All() []Notification { return d.notes.all() }

// Press presses a button of a notification, which closes the notification. The label "" presses the notification
// itself.
func (d *Desktop) Press(n Notification, label string) {
	d.t.Helper()
	key := "default"
	if label != "" {
		i := slices.IndexFunc(n.Actions, func(a Action) bool { return a.Key != "default" && a.Label == label })
		if i < 0 {
			d.t.Fatalf("there is no button %q on %+v", label, n)
		}
		key = n.Actions[i].Key
	}
	d.emit("ActionInvoked", n.ID, key)
	d.emit("NotificationClosed", n.ID, uint32(2)) // 2: dismissed by the user
}

func (d *Desktop) emit(signal string, values ...any) {
	d.t.Helper()
	if err := d.bus.Emit(notificationsPath, notificationsName+"."+signal, values...); err != nil {
		d.t.Fatal(err)
	}
}

// daemonOf has the methods that programs call on the bus.
type daemonOf struct{ d *Desktop }

// GetCapabilities returns the features that the daemon supports.
func (daemonOf) GetCapabilities() ([]string, *dbus.Error) {
	return []string{"actions", "body", "persistence"}, nil
}

// GetServerInformation returns the name of the daemon and the version of the specification, 1.2.
func (daemonOf) GetServerInformation() (name, vendor, version, spec string, e *dbus.Error) {
	return "browsertest", "mailroom", "1", "1.2", nil
}

// Notify shows a notification. If replaces is not 0, the notification replaces the one with that ID.
func (s daemonOf) Notify(_ string, replaces uint32, _, summary, body string, actions []string, hints map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	n := Notification{ID: replaces, Replaces: replaces != 0, Summary: summary, Body: body}
	if n.ID == 0 {
		n.ID = s.d.last.Add(1)
	}
	for pair := range slices.Chunk(actions, 2) {
		if len(pair) == 2 {
			n.Actions = append(n.Actions, Action{pair[0], pair[1]})
		}
	}
	n.Urgency, _ = hints["urgency"].Value().(byte)
	n.Silent, _ = hints["suppress-sound"].Value().(bool)
	s.d.notes.add(n)
	return n.ID, nil
}

// CloseNotification closes a notification for the program that has shown it.
func (s daemonOf) CloseNotification(id uint32) *dbus.Error {
	s.d.notes.add(Notification{ID: id, Closed: true})
	s.d.bus.Emit(notificationsPath, notificationsName+".NotificationClosed", id, uint32(3)) // 3: by CloseNotification
	return nil
}
