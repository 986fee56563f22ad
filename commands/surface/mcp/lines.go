package mcp

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"mailroom/commands/surface"
	"mailroom/orchestrator"
)

// onlyMessages passes on the lines of in that hold a message and answers the others, where the SDK would end the session
// at the first: one bad line of a client should not cost it the connection. What it writes to out goes through out's lock.
// Source: JSON-RPC 2.0, part 5.1.
func onlyMessages(log *slog.Logger, in io.Reader, out io.Writer) io.ReadCloser {
	passed, pass := io.Pipe()
	orchestrator.GoSafe("standard input", log, func() {
		lines := bufio.NewReaderSize(in, 64<<10)
		for {
			line, long, err := surface.ReadLine(lines)
			if len(bytes.TrimSpace(line)) > 0 || long {
				id, code, why := judge(line)
				if long {
					code, why = jsonrpc.CodeInvalidRequest, fmt.Sprintf("the line has more than %d bytes", surface.MaxLine)
				}
				if why != "" {
					out.Write(rpcError(id, code, why))
				} else if _, werr := pass.Write(append(line, '\n')); werr != nil {
					return
				}
			}
			if err != nil {
				pass.CloseWithError(err)
				return
			}
		}
	})
	return passed
}

// lockedWriter makes each write one, whoever writes. Closing it does nothing.
type lockedWriter struct {
	mu  sync.Mutex
	out io.Writer
}

// Write implements io.Writer.
func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

// Close implements io.Closer.
func (*lockedWriter) Close() error { return nil }
