package web

import (
	"net"
	"net/http"

	"mailroom/orchestrator/daemons"
)

// proofPath is the path at which a daemon with the console proves to a program that it belongs to the same user,
// before a browser is led to the console: see daemons.Prove. challengeHeader is the header with the program's
// challenge.
const (
	proofPath       = "/v1/console/proof"
	challengeHeader = "Mailroom-Challenge"
)

// proof is the answer at proofPath.
type proof struct {
	Proof string `json:"proof"`
}

// prove answers a challenge. The answer reveals no secret.
func (w *Server) prove(rw http.ResponseWriter, r *http.Request) {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	given, err := daemons.Prove(r.Context(), w.env.Ledger, r.Header.Get(challengeHeader), at.String())
	w.reply(rw, proof{given}, err)
}
