// Package standing has tests of every kind that the watch over tests has to tell apart.
package standing

import "testing"

func TestPasses(t *testing.T) { t.Log("not worth a word") }

func TestFails(t *testing.T) {
	t.Run("inner", func(t *testing.T) { t.Error("because of this") })
}

func TestStands(t *testing.T) {
	t.Run("deep", func(t *testing.T) {
		if testing.Short() {
			t.Skip("for those in a hurry")
		}
		select {}
	})
}
