// Package standing contains tests of every kind that cmd/tests must distinguish.
package standing

import (
	"testing"
	"time"
)

func TestPasses(t *testing.T) { t.Log("not worth a word") }

func TestFails(t *testing.T) {
	t.Run("inner", func(t *testing.T) { t.Error("because of this") })
}

// TestCrowded has a subtest that waits for a free parallel slot while another runs and prints output.
func TestCrowded(t *testing.T) {
	for _, name := range []string{"first", "second"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 4 {
				time.Sleep(time.Second / 2)
				t.Log("still there")
			}
		})
	}
}

func TestStands(t *testing.T) {
	t.Run("deep", func(t *testing.T) {
		if testing.Short() {
			t.Skip("for those in a hurry")
		}
		select {}
	})
}
