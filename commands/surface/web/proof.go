package web

import (
	"net"
	"net/http"

	"mailroom/orchestrator/daemons"
)

// proofPath is where a daemon with the console proves to a program of its own user that it is that user's, before a
// browser is led there: see daemons.Prove. challengeHeader is where the program puts its challenge.
const (
	proofPath       = "/v1/console/proof"
	challengeHeader = "Mailroom-Challenge"
)

// proof is the answer there.
type proof struct {
	Proof string `json:"proof"`
}

// prove answers a challenge. Whoever asks learns nothing by it.
func (w *Server) prove(rw http.ResponseWriter, r *http.Request) {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	given, err := daemons.Prove(r.Context(), w.env.Ledger, r.Header.Get(challengeHeader), at.String())
	w.reply(rw, proof{given}, err)
}
