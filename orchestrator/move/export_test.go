package move

// OnReached has f called with each step that a move has done.
func OnReached(f func(step string)) { reached = f }
