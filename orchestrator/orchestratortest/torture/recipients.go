package torture

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"mailroom/orchestrator/orchestratortest/history"
)

// take takes files away from the folders of dir transports as an agent does. It renames each file, so that no file is
// taken twice. A file must be complete at that moment.
func (o *office) take(name string, random *rand.Rand) {
	for number := 1; pause(o.ctx, between(random, time.Millisecond, 200*time.Millisecond)); {
		for _, f := range folders(o.Folder) {
			entries, err := os.ReadDir(f.Inbox)
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // no messages yet, or the folder is away
				o.fault(name, err)
			}
			for _, e := range entries {
				taken := filepath.Join(f.Taken, fmt.Sprintf("%06d-%s", number, e.Name()))
				if os.Rename(filepath.Join(f.Inbox, e.Name()), taken) != nil {
					continue // its folder was taken away just now
				}
				number++
				if content, err := os.ReadFile(taken); err != nil || !json.Valid(content) {
					o.fault(name, fmt.Errorf("%s of %s is not whole: %d bytes, %v", e.Name(), f.Recipient, len(content),
						err))
				}
			}
		}
	}
}

// worker returns the command of the agent worked.
func (o *office) worker() string {
	words := append(o.Helper[:len(o.Helper):len(o.Helper)], "worker", diaries(o.Folder)[0].Path,
		strconv.FormatUint(o.Seed, 10))
	for i, word := range words {
		words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// work runs as the command of an exec transport. It reads its message, records it in the diary, and ends in one of
// the ways in which a command can end. It returns the exit status.
func work(path string, seed uint64) int {
	run := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, uint64(time.Now().UnixNano()))) // different for each attempt
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer file.Close()
	began := history.Entry{At: time.Now().UnixNano(), Run: run, MessageID: os.Getenv("MAILROOM_MESSAGE_ID")}
	var line struct {
		MessageID string `json:"message_id"`
		Payload   struct {
			Token string `json:"token"`
		} `json:"payload"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&line); err != nil || line.MessageID != began.MessageID {
		began.MessageID = fmt.Sprintf("%s, with the input of %q (%v)", began.MessageID, line.MessageID, err)
	}
	began.Token = line.Payload.Token
	if err := began.Write(file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	time.Sleep(slowness(random))
	status := 0
	switch n := random.IntN(100); {
	case n < 8:
		status = 1
	case n < 16:
		status = 75
	case n < 20:
		status = 65 + random.IntN(5)
	}
	fmt.Println("done with", status)
	if err := (history.Entry{At: time.Now().UnixNano(), Run: run, Ended: true,
		Status: status}).Write(file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// slowness returns how long a recipient takes: usually no time, sometimes a while, and rarely longer than its
// timeout.
func slowness(random *rand.Rand) time.Duration {
	switch n := random.IntN(300); {
	case n == 0:
		return 3500 * time.Millisecond
	case n < 40:
		return between(random, 10*time.Millisecond, 400*time.Millisecond)
	}
	return 0
}

// receiver is the web server that receives the messages of the agent posted.
type receiver struct {
	folder string
	seed   uint64
	fault  func(name string, err error)

	listener net.Listener
	server   *http.Server
	diary    *os.File
	requests atomic.Uint64
}

func (r *receiver) listen() (err error) {
	if r.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	if r.diary, err = os.OpenFile(diaries(r.folder)[1].Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return err
	}
	r.server = &http.Server{Handler: r, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		defer func() { recover() }()
		r.server.Serve(r.listener)
	}()
	return nil
}

// close waits for the active requests.
func (r *receiver) close() error {
	if r.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := errors.Join(r.server.Shutdown(ctx), r.diary.Close())
	r.server = nil
	return err
}

func (r *receiver) url() string { return "http://" + r.listener.Addr().String() + "/posted" }

// key returns the key that signs the requests.
func (r *receiver) key() []byte {
	key := sha256.Sum256(strconv.AppendUint(nil, r.seed, 10))
	return key[:]
}

func (r *receiver) secret() string { return "whsec_" + base64.StdEncoding.EncodeToString(r.key()) }

// ServeHTTP records a request and answers in one of the ways in which a server can answer. It ignores a request with
// an incomplete body, because the sender was killed.
func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	number := r.requests.Add(1)
	id, err := url.PathUnescape(q.Header.Get("webhook-id"))
	var event struct {
		Data struct {
			MessageID string `json:"message_id"`
			Payload   struct {
				Token string `json:"token"`
			} `json:"payload"`
		} `json:"data"`
	}
	if err == nil {
		err = json.Unmarshal(body, &event)
	}
	if err != nil || event.Data.MessageID != id || !r.signed(q.Header, body) {
		r.fault(posted, fmt.Errorf("the request %q for %q is malformed, or not signed: %v", id, event.Data.MessageID,
			err))
	}
	began := history.Entry{At: time.Now().UnixNano(), Run: strconv.FormatUint(number, 10), MessageID: id,
		Token: event.Data.Payload.Token}
	random := rand.New(rand.NewPCG(r.seed, number))
	status := statusOf(random)
	ended := history.Entry{Run: began.Run, Ended: true, Status: status}
	if err := began.Write(r.diary); err != nil {
		r.fault(posted, err)
	}
	pause(context.Background(), slowness(random)) // the pause continues when the client is killed
	ended.At = time.Now().UnixNano()
	if err := ended.Write(r.diary); err != nil {
		r.fault(posted, err)
	}
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
}

// statusOf returns a random status. 0 means no answer.
func statusOf(random *rand.Rand) int {
	statuses := []int{0, 500, 404, 503, 503, 400, 413, 415, 422}
	if n := random.IntN(60); n < len(statuses) {
		return statuses[n]
	}
	return http.StatusAccepted
}

// signed checks the signature of a request. Source: Standard Webhooks 1.0.
func (r *receiver) signed(h http.Header, body []byte) bool {
	mac := hmac.New(sha256.New, r.key())
	fmt.Fprintf(mac, "%s.%s.", h.Get("webhook-id"), h.Get("webhook-timestamp"))
	mac.Write(body)
	return h.Get("webhook-signature") == "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
