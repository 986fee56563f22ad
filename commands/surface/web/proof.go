package web

import (
	"net"
	"net/http"

	"mailroom/orchestrator/daemons"
)

// ProofPath is where a daemon with the console proves to a program of its own user that it is that user's, before a
// browser is led there: see daemons.Prove. ChallengeHeader is where the program puts its challenge.
const (
	ProofPath       = "/v1/console/proof"
	ChallengeHeader = "Mailroom-Challenge"
)

// Proof is the answer there.
type Proof struct {
	Proof string `json:"proof"`
}

// prove answers a challenge. Whoever asks learns nothing by it.
func (w *Server) prove(rw http.ResponseWriter, r *http.Request) {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	proof, err := daemons.Prove(r.Context(), w.env.Ledger, r.Header.Get(ChallengeHeader), at.String())
	w.reply(rw, Proof{proof}, err)
}
