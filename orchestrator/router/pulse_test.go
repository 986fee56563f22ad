package router_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store/postgres/postgrestest"
	"mailroom/orchestrator/transport"
)

// pulse is the interval at which the processes of these tests show that they live.
const pulse = 500 * time.Millisecond

func TestHelperProcess(t *testing.T) {
	helper.Run(map[string]func(string, *bufio.Scanner){"deliver": helpDeliver})
}

// helpDeliver delivers due messages through a transport that never returns.
func helpDeliver(address string, _ *bufio.Scanner) {
	wire := &enginetest.Scripted{}
	wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		fmt.Println("delivering", a.Messages[0].ID)
		select {}
	})
	e, err := router.Open(context.Background(), onServer(address, wire))
	if err == nil {
		_, err = e.DeliverAll(context.Background(), delivery.Options{})
	}
	fmt.Println("ended", err)
	os.Exit(1)
}

func onServer(address string, wire *enginetest.Scripted) ledger.Options {
	return ledger.Options{
		Path: address, Pulse: pulse, Log: slog.New(slog.DiscardHandler),
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "wire": wire},
	}
}

// scene opens an engine on a server, with agent a, and with agent b behind a test transport.
func scene(t *testing.T, address string) (e *delivery.Engine, wire *enginetest.Scripted) {
	t.Helper()
	wire = &enginetest.Scripted{}
	e = enginetest.OpenWith(t, onServer(address, wire))
	if _, err := e.Store.Create(); err != nil {
		t.Fatal(err)
	}
	target := "wire:b"
	for _, u := range []agents.Update{{Name: "a"}, {Name: "b", Deliver: &target}} {
		if _, _, err := agents.Add(t.Context(), e.Ledger, u); err != nil {
			t.Fatal(err)
		}
	}
	return e, wire
}

func send(t *testing.T, e *delivery.Engine) (id string) {
	t.Helper()
	sent, err := messages.Send(t.Context(), e.Ledger, orchestrator.Draft{Sender: "a", Recipient: "b", Type: "note"})
	if err != nil {
		t.Fatal(err)
	}
	return sent.MessageID
}

// TestKilledOnAServer checks that this process delivers the messages that a killed process of another host was
// delivering, long before their leases expire.
func TestKilledOnAServer(t *testing.T) {
	t.Parallel()
	address := postgrestest.Place(postgrestest.Start(t))
	e, wire := scene(t, address)
	id := send(t, e)
	other := helper.Start(t, "deliver", address)
	other.Expect("delivering " + id)
	other.Kill()
	for late := time.Now().Add(time.Minute); len(wire.IDs()) == 0 &&
		time.Now().Before(late); orchestrator.Pause(t.Context(), pulse) {
		if _, err := e.DeliverAll(t.Context(), delivery.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	want.Equal(t, "arrived", strings.Join(wire.IDs(), " "), id)
}

// TestCutOffFromTheServer checks that a delivery ends if its process cannot reach the server, because other hosts
// take the process for dead. Its messages are due again, as if the delivery had not begun.
func TestCutOffFromTheServer(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	e, wire := scene(t, postgrestest.Place(server))
	id := send(t, e)
	wire.Set(func(ctx context.Context, _ orchestrator.Attempt) []error {
		postgrestest.Stop(t, server)
		<-ctx.Done()
		postgrestest.Again(t, server)
		wire.Set(nil)
		return []error{context.Cause(ctx)}
	})
	did, err := e.DeliverAll(t.Context(), delivery.Options{})
	if err == nil && did.Delivered == 0 { // the process may be unknown again when its attempt is settled
		known(t, e)
		did, err = e.DeliverAll(t.Context(), delivery.Options{})
	}
	if err != nil || did.Delivered != 1 || did.Failed != 0 {
		t.Errorf("%+v, %v", did, err)
	}
	want.Equal(t, "arrived", strings.Join(wire.IDs(), " "), id)
}

// known waits until other hosts can see that this process lives.
func known(t *testing.T, e *delivery.Engine) {
	t.Helper()
	for e.Store.Alive().Err() != nil {
		if t.Context().Err() != nil {
			t.Fatal("this process is not known any more")
		}
		orchestrator.Pause(t.Context(), pulse/10)
	}
}

// TestNothingIsClaimedWhileUnknown checks that a process that cannot show that it lives begins no attempt, because
// each attempt would be cut off at once.
func TestNothingIsClaimedWhileUnknown(t *testing.T) {
	t.Parallel()
	address := postgrestest.Place(postgrestest.Start(t))
	e, wire := scene(t, address)
	first := send(t, e)
	if _, err := e.DeliverAll(t.Context(), delivery.Options{}); err != nil {
		t.Fatal(err)
	}
	other := postgrestest.Connect(t, address)
	other.Run(`BEGIN; SELECT FROM pulse FOR UPDATE`)
	<-e.Store.Alive().Done()
	second := send(t, e)
	if did, err := e.DeliverAll(t.Context(), delivery.Options{}); err != nil || did.Delivered != 0 {
		t.Errorf("%+v, %v", did, err)
	}
	want.Equal(t, "arrived while it is unknown", strings.Join(wire.IDs(), " "), first)
	other.Run(`COMMIT`)
	known(t, e)
	if did, err := e.DeliverAll(t.Context(), delivery.Options{}); err != nil || did.Delivered != 1 {
		t.Errorf("%+v, %v", did, err)
	}
	want.Equal(t, "arrived", strings.Join(wire.IDs(), " "), first+" "+second)
}
