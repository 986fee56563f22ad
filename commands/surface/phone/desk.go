package phone

import (
	"log/slog"
	"net/http"

	"mailroom/commands"
	"mailroom/commands/surface/listener"
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// Desk returns the handler for the console's page as a device, below a path such as /v1/console/desk. With it, the
// page becomes a device, reads questions and alerts, and answers questions. The Authorization header has the token of
// the device, as for a phone. The caller must admit only sessions of the console, since enrolling requires no pairing
// code: such a session was opened with a code that this machine issued.
//
// There are no pushes: the page follows the console's events and sends a request after each.
func Desk(l *ledger.Ledger, log *slog.Logger, path string) http.Handler {
	s := newService(questions.DeviceDesk, l, log)
	mux := http.NewServeMux()
	listener.Handle(mux, path+"/device", listener.Methods{
		"POST": http.HandlerFunc(s.enrolling), "GET": s.waiting("", s.device), "DELETE": s.waiting("desk unpair", s.unpair),
	})
	s.reading(mux, path)
	mux.HandleFunc("/", nothingAt)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if err := person.Here(r.Context(), l); err != nil { // the approvals are on another host
			listener.WriteFailure(rw, commands.HTTPStatus(err), err)
			return
		}
		mux.ServeHTTP(rw, r)
	})
}

// enrolling answers a browser that asks to become a device.
func (s *service) enrolling(rw http.ResponseWriter, r *http.Request) {
	if !s.codes.Allow() {
		listener.TooMany(rw, "too many attempts to pair")
		return
	}
	s.run(rw, r, func(r *http.Request) (any, error) {
		return s.traced(r, "desk pair", orchestrator.Operator, true, s.enrol)
	})
}

// enrol makes the requesting browser a device. The device then waits for its approval, as a phone does.
func (s *service) enrol(r *http.Request) (any, error) {
	var body struct{ Name, Recipient string }
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	if err := checkRecipient(body.Recipient); err != nil {
		return nil, err
	}
	d, token, err := questions.PairDesk(r.Context(), s.ledger, body.Name, body.Recipient)
	if err != nil {
		return nil, err
	}
	return paired{d.ID, token, d.Fingerprint, d.State}, nil
}
