package cli

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/commands/surface/remote"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
)

const (
	completeWithin = time.Second // how long completion waits for the database
	completeIDs    = 20          // number of messages offered
)

// known returns the candidates for the value of a parameter: its fixed values, or the agents, groups, messages or
// command-specific values in the database that the line selects. It returns none of the latter if the database cannot
// be opened.
func known(p *Program, before *line, param *parameter.Param) (list []candidate) {
	for _, value := range param.OneOf {
		list = append(list, candidate{word: value})
	}
	ids := slices.Contains(idsOfMessages, param.Name)
	var own commands.KnownValues
	if before.definition != nil {
		own = before.definition.Known(param.Name)
	}
	if own == nil && !ids && !strings.HasPrefix(param.NameOf, "agent") {
		return list
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
	defer cancel()
	path, err := p.databasePath(before.values["db"])
	if err != nil || p.there == nil && remote.IsPlace(path) { // completion does not wait for another machine
		return list
	}
	engine, err := p.Open(ctx, path, slog.New(slog.DiscardHandler))
	if err != nil {
		return list
	}
	defer engine.Close()
	if own != nil {
		return append(list, ownValues(ctx, p, before, engine, own)...)
	}
	if ids {
		return knownMessages(ctx, p, engine.Ledger)
	}
	conf, err := engine.Ledger.Configuration(ctx)
	if err != nil {
		return list
	}
	for _, name := range slices.Sorted(maps.Keys(conf.Agents)) {
		list = append(list, candidate{name, terminal.Inline(conf.Agents[name].Role)})
	}
	if strings.Contains(param.NameOf, "group") {
		for _, name := range slices.Sorted(maps.Keys(conf.Groups)) {
			list = append(list, candidate{name, "group"})
		}
	}
	return list
}

// ownValues returns the candidates for a parameter whose command supplies the possible values.
func ownValues(ctx context.Context, p *Program, before *line, engine *delivery.Engine,
	own commands.KnownValues) (list []candidate) {
	caller := commands.Caller{Name: cmp.Or(before.values["as"], p.Getenv("MAILROOM_AGENT")), Admin: true, Shell: true}
	values, err := own(ctx,
		commands.Env{Engine: engine, Catalogue: p.Catalogue, Caller: caller, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil
	}
	for _, v := range values {
		if strings.Trim(v.Value, "-_."+orchestrator.Alphanumeric) == "" { // needs no quoting in a shell
			list = append(list, candidate{v.Value, terminal.Inline(v.About)})
		}
	}
	return list
}

// knownMessages returns the newest messages, preceded by the word last for the newest of them.
func knownMessages(ctx context.Context, p *Program, l *ledger.Ledger) (list []candidate) {
	found, err := messages.SearchOwn(ctx, l,
		messages.Search{Limit: completeIDs, Says: func(*orchestrator.Message) bool { return true }})
	if err != nil || len(found.Messages) == 0 {
		return nil
	}
	list = append(list, candidate{last, "the newest message"})
	for i := range found.Messages {
		m := &found.Messages[i]
		if strings.Trim(m.ID, "-_."+orchestrator.Alphanumeric) != "" {
			continue // a chosen ID that needs quoting in a shell
		}
		list = append(list,
			candidate{m.ID, p.people(p.Out, false).Cut(terminal.Inline(m.Sender+" to "+m.Recipient+": "+
				commands.ContentOf(m).Text), 60)})
	}
	return list
}
