package corpus

import "math/rand/v2"

// mutations returns up to n inputs derived from seeds: truncated, with a byte removed or doubled or a bit flipped,
// with a token inserted or in place of a byte, and combined from parts of two seeds. They are the same in every run,
// shuffled.
func mutations(seeds, tokens []string, n int) []string {
	var all []string
	for i, seed := range seeds {
		for at := range len(seed) {
			before, after := seed[:at], seed[at+1:]
			all = append(all, before, seed[at:], before+after, before+seed[at:at+1]+seed[at:])
			for bit := range 8 {
				all = append(all, before+string([]byte{seed[at] ^ 1<<bit})+after)
			}
			for _, token := range tokens {
				all = append(all, before+token+seed[at:], before+token+after)
			}
			other := seeds[(i+1+at)%len(seeds)]
			all = append(all, before+other[len(other)*at/len(seed):])
		}
	}
	random := rand.New(rand.NewPCG(1, uint64(len(all))))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}
