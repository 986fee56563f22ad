package admin

import (
	"context"
	"strings"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/schedules"
)

// What a shell offers where a command line is completed.

func knownSettings(ctx context.Context, env commands.Env) ([]commands.Known, error) {
	list, err := env.Ledger.Settings(ctx)
	return commands.KnownOf(list,
		func(s *ledger.Setting) commands.Known { return commands.Known{Value: s.Key, About: s.About} }), err
}

func knownSchedules(ctx context.Context, env commands.Env) ([]commands.Known, error) {
	list, err := schedules.List(ctx, env.Ledger)
	return commands.KnownOf(list, func(s *orchestrator.Schedule) commands.Known {
		return commands.Known{Value: s.Name, About: s.Spec + " " + s.Command}
	}), err
}

func knownGroups(ctx context.Context, env commands.Env) ([]commands.Known, error) {
	list, err := agents.Groups(ctx, env.Ledger)
	return commands.KnownOf(list, func(g *agents.Group) commands.Known {
		return commands.Known{Value: g.Name, About: strings.Join(g.Members, ", ")}
	}), err
}

func knownAudits(context.Context, commands.Env) ([]commands.Known, error) {
	return commands.KnownOf(audits(),
		func(a *Audit) commands.Known { return commands.Known{Value: a.Name, About: a.About} }), nil
}

func knownCommands(_ context.Context, env commands.Env) ([]commands.Known, error) {
	var list []commands.Known
	for _, d := range env.Catalogue.All() {
		list = append(list, commands.Known{Value: d.Name, About: d.Summary()})
	}
	return list, nil
}
