package roster

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
)

// AgentTokenParams names the agent for which to issue a token, or whose tokens to revoke or list.
type AgentTokenParams struct {
	Name    string            `json:"name,omitempty" desc:"agent that the token is for" check:"agent" arg:"1"`
	Admin   bool              `json:"admin,omitempty" desc:"also allow the commands for administrators"`
	Expires parameter.Seconds `json:"expires,omitempty" desc:"how long the token is valid; default: until it is revoked" check:"min=1,max=315360000"`
	Revoke  bool              `json:"revoke,omitempty" desc:"revoke all tokens of the agent, or the token with the given ID, instead of issuing one"`
	ID      string            `json:"id,omitempty" desc:"with revoke: ID of the one token to revoke, from the list of tokens" check:"min=12,max=12"`
	List    bool              `json:"list,omitempty" desc:"list the tokens of the agent, or without a name all tokens, instead of issuing one"`
}

// AgentTokenResult holds a new token, which is shown only once, or the result of revoking or listing tokens.
type AgentTokenResult struct {
	Agent     string         `json:"agent"` // "" for a list of all tokens
	Token     string         `json:"token,omitempty"`
	ID        string         `json:"id,omitempty"`
	Admin     bool           `json:"admin,omitempty"`
	ExpiresAt string         `json:"expires_at,omitempty"`
	Known     *bool          `json:"known,omitempty"`   // false: no agent has this name yet; its first action adds it
	Revoked   *int64         `json:"revoked,omitempty"` // number of revoked tokens
	Tokens    []agents.Token `json:"tokens,omitempty"`
}

var agentTokenCommand = commands.Define(vocabulary, "agent token", agentToken)

func agentToken(ctx context.Context, env commands.Env, p AgentTokenParams) (AgentTokenResult, error) {
	r := AgentTokenResult{Agent: p.Name}
	if (p.Revoke || p.List) && (p.Admin || p.Expires > 0 || p.Revoke == p.List) {
		return r, orchestrator.Errorf(orchestrator.InvalidParams, "`revoke` and `list` cannot be combined with each other, with `admin`, or with `expires`")
	}
	if (p.ID != "") != (p.Revoke && p.Name == "") || p.Name == "" && !p.Revoke && !p.List {
		return r, orchestrator.Errorf(orchestrator.InvalidParams,
			"name: give the name of an agent, or `list` without a name, or `revoke` with the ID of a token").
			WithHint("To list the tokens of all agents, run `mailroom agent token --list`")
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
	r.Known = new(err == nil) // on any error too: the token is shown only once
	if env.Call.Aside != nil {
		r.explain(env.Call.Aside)
	}
	return r, nil
}

// explain writes for a person what to do with a new token. It is not part of the answer, so that a shell can store
// the answer in a variable.
func (r AgentTokenResult) explain(w *terminal.Text) {
	w.Printf("A program with this token acts for %s. Copy the token now: Mailroom does not show it again. Send it as `Authorization: Bearer ...`.\n", r.Agent)
	if !*r.Known {
		w.Printf("There is no agent %s yet. The first action with the token adds the agent. If the name is mistyped, revoke the token.\n",
			r.Agent)
	}
}

// Text writes the token, or the result of revoking or listing tokens.
func (r AgentTokenResult) Text(w *terminal.Text) {
	switch {
	case r.Revoked != nil && r.ID != "":
		w.Printf("Revoked the token %s of %s.\n", r.ID, r.Agent)
	case r.Revoked != nil && *r.Revoked == 0:
		w.Printf("%s has no tokens to revoke.\n", r.Agent)
	case r.Revoked != nil:
		w.Printf("Revoked %s of %s.\n", orchestrator.Plural(int(*r.Revoked), "token"), r.Agent)
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
	}
}
