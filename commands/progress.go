package commands

import "context"

type progressKey struct{}

// WithProgress returns a context whose commands report how far they are. report may be called from several goroutines.
func WithProgress(ctx context.Context, report func(done, total int64, unit string)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// Progress reports that done of total units are through; a total of 0 is unknown. It does nothing when nobody listens.
func Progress(ctx context.Context, done, total int64, unit string) {
	if report, ok := ctx.Value(progressKey{}).(func(done, total int64, unit string)); ok {
		report(done, total, unit)
	}
}

type narratorKey struct{}

// WithNarrator returns a context whose commands may tell what they do while they do it.
func WithNarrator(ctx context.Context, w *Text) context.Context {
	return context.WithValue(ctx, narratorKey{}, w)
}

// Narrated reports whether somebody watches: whether the answer is for people.
func Narrated(ctx context.Context) bool {
	_, ok := ctx.Value(narratorKey{}).(*Text)
	return ok
}

// Narrate tells something to whoever watches; it does nothing when nobody does.
func Narrate(ctx context.Context, tell func(w *Text)) {
	if w, ok := ctx.Value(narratorKey{}).(*Text); ok {
		tell(w)
	}
}
