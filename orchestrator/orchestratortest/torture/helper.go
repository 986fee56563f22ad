package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/history"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store/postgres"
)

// lanes is the number of goroutines of a helper that send concurrently.
const lanes = 6

// diary writes a helper's events to the driver. Each line is written at once, so that it survives the helper.
type diary struct {
	mu  sync.Mutex
	out io.Writer
}

func (d *diary) add(e history.Event) {
	if e.At == 0 {
		e.At = time.Now().UnixNano()
	}
	line, _ := json.Marshal(e) // strings and numbers can always be encoded
	d.mu.Lock()
	defer d.mu.Unlock()
	d.out.Write(append(line, '\n'))
}

// Helper runs a process that sends as a Go program does. Its arguments are a role (api, raw), the database and a
// seed. Helper ends at the end of its standard input, and returns the exit status. In the role worker, Helper is the
// command of an exec transport, and its second argument is a diary.
func Helper(args []string, transports map[string]orchestrator.Transport) int {
	if len(args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: helper api|raw DATABASE SEED, or helper worker DIARY SEED")
		return 64
	}
	seed, err := strconv.ParseUint(args[2], 10, 64)
	if err == nil && args[0] == "worker" {
		return work(args[1], seed)
	}
	if err == nil {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			defer func() { recover() }()
			defer cancel()
			io.Copy(io.Discard, os.Stdin)
		}()
		d := &diary{out: os.Stdout}
		if args[0] == "raw" {
			err = sendPlain(ctx, args[1], seed, d)
		} else {
			err = sendByAPI(ctx, args[1], seed, d, transports)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// sendByAPI sends from several goroutines, while another goroutine delivers in the same process.
func sendByAPI(ctx context.Context, path string, seed uint64, d *diary,
	transports map[string]orchestrator.Transport) error {
	r, err := router.Open(ctx, ledger.Options{
		Path: path, Instance: os.Getenv("ORCHESTRATOR_INSTANCE_ID"), Host: os.Getenv("MAILROOM_HOST_NAME"),
		Transports: transports,
		State:      filepath.Join(os.Getenv("HOME"), ".local", "state", "mailroom"), // as on the command line
	})
	if err != nil {
		return err
	}
	o := &office{}
	var sending sync.WaitGroup
	failures := make(chan error, lanes+1)
	for lane := range lanes {
		sending.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(lane)))
			for number := 1; pause(ctx, between(random, time.Microsecond, 120*time.Millisecond)); number++ {
				send := o.draw(random, strconv.Itoa(lane), number)
				send.Token = os.Getenv("ORCHESTRATOR_INSTANCE_ID") + "/" + send.Token
				if err := sendDraft(r, &send, d); err != nil && serverAway(path, err) {
					d.add(history.Event{Kind: history.Unsure, Token: send.Token})
				} else if err != nil {
					failures <- err
					return
				}
			}
		})
	}
	sending.Go(func() {
		random := rand.New(rand.NewPCG(seed, lanes))
		for pause(ctx, between(random, time.Millisecond, 300*time.Millisecond)) {
			if _, err := r.DeliverAll(ctx, delivery.Options{}); err != nil && ctx.Err() == nil &&
				!serverAway(path, err) {
				failures <- err
				return
			}
		}
	})
	sending.Wait()
	close(failures)
	if err := r.Close(); err != nil {
		return err
	}
	return <-failures
}

// serverAway reports whether an error means only that the server of a database was unavailable or busy.
func serverAway(database string, err error) bool {
	code := orchestrator.CodeOf(err)
	return postgres.IsAddress(database) && (code == orchestrator.Unavailable || code == orchestrator.Busy)
}

func sendDraft(r *delivery.Engine, send *draft, d *diary) error {
	e := send.Event
	e.Kind = history.Asked
	d.add(e)
	sent, err := messages.Send(context.Background(), r.Ledger, orchestrator.Draft{
		Sender: send.Sender, Recipient: send.Recipient, Type: "note", Payload: []byte(send.payload()),
		Priority: send.Priority,
		TTL:      time.Duration(send.ttl) * time.Second,
	})
	if err != nil {
		return err
	}
	d.add(history.Event{Kind: history.Acknowledged, Token: send.Token, MessageID: sent.MessageID})
	return nil
}

// sendPlain sends with SQL alone, as a program does that uses only the documented table.
func sendPlain(ctx context.Context, path string, seed uint64, d *diary) error {
	db, err := history.OpenPlain(path, 30*time.Second)
	if err != nil {
		return err
	}
	defer db.Close()
	random := rand.New(rand.NewPCG(seed, 0))
	o := &office{}
	for number := 1; pause(ctx, between(random, time.Millisecond, 150*time.Millisecond)); number++ {
		send := o.draw(random, "0", number)
		send.Token = os.Getenv("ORCHESTRATOR_INSTANCE_ID") + "/" + send.Token
		send.Priority = 0 // the default of the table
		id := "by-hand-" + send.Token
		e := send.Event
		e.Kind = history.Asked
		d.add(e)
		if _, err := db.ExecContext(context.Background(),
			`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ($1, $2, $3, $4)`,
			id, send.Sender, send.Recipient, send.payload()); err != nil && postgres.IsAddress(path) {
			d.add(history.Event{Kind: history.Unsure, Token: send.Token})
			continue
		} else if err != nil {
			return err
		}
		d.add(history.Event{Kind: history.Acknowledged, Token: send.Token, MessageID: id})
	}
	return nil
}
