package otlptest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

// The environment variable receive makes the test program a receiver at the address in it. The receiver writes into
// the file in receiveInto.
const receive, receiveInto = "OTLPTEST_RECEIVE", "OTLPTEST_INTO"

func TestMain(m *testing.M) {
	if address := os.Getenv(receive); address != "" {
		if err := runReceiver(address, os.Getenv(receiveInto)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runReceiver runs the Collector's receiver until the end of standard input. It writes each request as a line of the
// file before it answers. It does not answer while a file with the same name and the suffix .hold exists.
func runReceiver(address, into string) error {
	file, err := os.OpenFile(into, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	sink, err := consumer.NewTraces(func(_ context.Context, traces ptrace.Traces) error {
		text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
		if err == nil {
			_, err = file.Write(append([]byte{'\n'}, append(text, '\n')...)) // ends a line cut short by a kill
		}
		for err == nil && held(into) {
			<-time.After(5 * time.Millisecond)
		}
		return err
	})
	if err != nil {
		return err
	}
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	config.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = address
	r, err := factory.CreateTraces(context.Background(), receivertest.NewNopSettings(factory.Type()), config, sink)
	if err != nil {
		return err
	}
	if err := r.Start(context.Background(), componenttest.NewNopHost()); err != nil {
		return err
	}
	fmt.Println("receiving")
	io.Copy(io.Discard, os.Stdin)
	return r.Shutdown(context.Background())
}

func held(into string) bool {
	_, err := os.Stat(into + ".hold")
	return err == nil
}

// collector is a receiver in its own process.
type collector struct {
	t       *testing.T
	address string
	file    string
	cmd     *exec.Cmd
}

func (c *collector) start() {
	c.t.Helper()
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = append(os.Environ(), receive+"="+c.address, receiveInto+"="+c.file)
	c.cmd.Stderr = os.Stderr
	_, err := c.cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	begin(c.t, c.cmd, "receiving")
}

// hold keeps the receiver from answering until release is called.
func (c *collector) hold() {
	c.t.Helper()
	if err := os.WriteFile(c.file+".hold", nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *collector) release() {
	c.t.Helper()
	if err := os.Remove(c.file + ".hold"); err != nil {
		c.t.Fatal(err)
	}
}

// begin starts a process and waits for a line that contains a text.
func begin(t *testing.T, cmd *exec.Cmd, text string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !bytes.Contains([]byte(line), []byte(text)) {
		t.Fatalf("the first line of %s is %q: %v", cmd, line, err)
	}
}

// kill ends a process with SIGKILL.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
}

// span is a span as decoded by the Collector.
type span struct {
	TraceID      string `json:"traceId"`
	SpanID       string `json:"spanId"`
	ParentSpanID string `json:"parentSpanId"`
	Name         string `json:"name"`
	Attributes   []struct {
		Key   string                     `json:"key"`
		Value map[string]json.RawMessage `json:"value"`
	} `json:"attributes"`
	text string // the whole span
}

// attribute returns an attribute as text, or "" if there is none.
func (s *span) attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key != key {
			continue
		}
		for _, value := range a.Value {
			return string(bytes.Trim(value, `"`))
		}
	}
	return ""
}

// requests returns the number of received requests.
func (c *collector) requests() int {
	return bytes.Count(c.read(), []byte("resourceSpans"))
}

func (c *collector) read() []byte {
	c.t.Helper()
	text, err := os.ReadFile(c.file)
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	return text
}

// spans returns all received spans by ID. Spans that were received several times must be equal.
func (c *collector) spans() (all map[string]*span, again int) {
	c.t.Helper()
	all = map[string]*span{}
	for line := range bytes.Lines(c.read()) {
		var request struct {
			ResourceSpans []struct {
				ScopeSpans []struct {
					Spans []json.RawMessage `json:"spans"`
				} `json:"scopeSpans"`
			} `json:"resourceSpans"`
		}
		if json.Unmarshal(line, &request) != nil {
			continue // empty, or cut short by a kill and therefore not answered
		}
		for _, resource := range request.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, text := range scope.Spans {
					s := &span{text: string(text)}
					if err := json.Unmarshal(text, s); err != nil {
						c.t.Fatal(err)
					}
					before := all[s.SpanID]
					if before != nil {
						again++
						if before.text != s.text {
							c.t.Errorf("span %s came as\n%s\nand then as\n%s", s.SpanID, before.text, s.text)
						}
					}
					all[s.SpanID] = s
				}
			}
		}
	}
	return all, again
}
