package roster

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
)

// AgentTokenParams say for whom to issue a token, or whose to revoke or list.
type AgentTokenParams struct {
	Name    string            `json:"name,omitempty" desc:"agent that the token is for" check:"agent" arg:"1"`
	Admin   bool              `json:"admin,omitempty" desc:"its holder may also run the commands for administrators"`
	Expires parameter.Seconds `json:"expires,omitempty" desc:"how long it is valid; left out: until it is revoked" check:"min=1,max=315360000"`
	Revoke  bool              `json:"revoke,omitempty" desc:"revoke all tokens of the agent, or the one with this id, and issue none"`
	ID      string            `json:"id,omitempty" desc:"with revoke: the one token to revoke, by the id that list shows" check:"min=12,max=12"`
	List    bool              `json:"list,omitempty" desc:"list the tokens of the agent, or of all without a name, and issue none"`
}

// AgentTokenResult holds a new token, which is shown this once, or what was asked of the present ones.
type AgentTokenResult struct {
	Agent     string         `json:"agent"` // "" in a list of all
	Token     string         `json:"token,omitempty"`
	ID        string         `json:"id,omitempty"`
	Admin     bool           `json:"admin,omitempty"`
	ExpiresAt string         `json:"expires_at,omitempty"`
	Known     *bool          `json:"known,omitempty"`   // false: nobody has this name yet, and its first act adds it
	Revoked   *int64         `json:"revoked,omitempty"` // how many
	Tokens    []agents.Token `json:"tokens,omitempty"`
}

var agentTokenCommand = commands.Define(vocabulary, "agent token", agentToken)

func agentToken(ctx context.Context, env commands.Env, p AgentTokenParams) (AgentTokenResult, error) {
	r := AgentTokenResult{Agent: p.Name}
	if (p.Revoke || p.List) && (p.Admin || p.Expires > 0 || p.Revoke == p.List) {
		return r, orchestrator.Errorf(orchestrator.InvalidParams, "revoke and list go alone")
	}
	if (p.ID != "") != (p.Revoke && p.Name == "") || p.Name == "" && !p.Revoke && !p.List {
		return r, orchestrator.Errorf(orchestrator.InvalidParams,
			"name: name an agent; or list all, or revoke one by its id").
			WithHint("`mailroom agent token --list` lists the tokens of all")
	}
	switch {
	case p.ID != "":
		token, valid, err := agents.RevokeToken(ctx, env.Ledger, p.ID)
		n := int64(0)
		if valid {
			n = 1
		}
		r.Agent, r.ID, r.Revoked = token.Agent, token.ID, &n
		return r, err
	case p.Revoke:
		n, err := agents.RevokeTokens(ctx, env.Ledger, p.Name)
		r.Revoked = &n
		return r, err
	case p.List:
		tokens, err := agents.Tokens(ctx, env.Ledger, p.Name)
		r.Tokens = tokens
		return r, err
	}
	secret, token, err := agents.IssueToken(ctx, env.Ledger, p.Name, p.Admin, p.Expires.Duration())
	if err != nil {
		return r, err
	}
	r.Token, r.ID, r.Admin, r.ExpiresAt = secret, token.ID, token.Admin, token.ExpiresAt
	_, err = agents.Get(ctx, env.Ledger, p.Name)
	if r.Known = new(err == nil); orchestrator.CodeOf(err) == orchestrator.NotFound {
		err = nil
	}
	return r, err
}

// Text shows the token, or what became of the present ones.
func (r AgentTokenResult) Text(w *terminal.Text) {
	switch {
	case r.Revoked != nil && r.ID != "":
		w.Printf("%s of %s is revoked.\n", r.ID, r.Agent)
	case r.Revoked != nil && *r.Revoked == 0:
		w.Printf("%s has no token that could be revoked.\n", r.Agent)
	case r.Revoked != nil:
		w.Printf("Revoked %d tokens of %s.\n", *r.Revoked, r.Agent)
	case r.Token == "":
		terminal.TableOf(w, []string{"TOKEN", "AGENT", "RIGHT", "CREATED", "EXPIRES", "REVOKED"}, r.Tokens,
			func(t *agents.Token) []string {
				right := "self"
				if t.Admin {
					right = "admin"
				}
				return []string{t.ID, t.Agent, right, w.When(t.CreatedAt), w.When(t.ExpiresAt), w.When(t.RevokedAt)}
			})
	default:
		w.Printf("%s\n", w.Paint(terminal.Bold, r.Token))
		w.Printf("It speaks for %s and is shown this once. Send it as `Authorization: Bearer ...`.\n", r.Agent)
		if !*r.Known {
			w.Printf("Nobody is known as %s yet; its first act adds it. If the name is mistyped, revoke the token.\n",
				r.Agent)
		}
	}
}
