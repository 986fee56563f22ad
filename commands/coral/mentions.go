package coral

import (
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/pattern"
)

// mentioned parses mentions as agents write them: NAME or @NAME, in any case. It leaves invalid names unchanged.
func mentioned(mentions []string) []string {
	names := make([]string, len(mentions))
	for i, mention := range mentions {
		name, err := orchestrator.CheckName("mention", strings.TrimPrefix(mention, "@"))
		if err != nil {
			name = mention
		}
		names[i] = name
	}
	return names
}

// Patterns for names written as @NAME in the content. Code also contains such words, so text in backquotes is
// ignored.
var (
	code  = pattern.New("(?s)```.*?```|`[^`\n]*`")
	named = pattern.New(`(?:^|[^\pL\pN_.@/-])@([A-Za-z][A-Za-z0-9_-]*)`)
)

// maxPointedOut bounds the names in each list that pointOut fills.
const maxPointedOut = 20

// pointOut lists the names that the content has as @NAME but that are not mentions. The author usually meant to
// notify them.
func (r *SendMessageResult) pointOut(participants []string) {
	for _, match := range named().FindAllStringSubmatch(code().ReplaceAllString(r.Content, " "), -1) {
		name, err := orchestrator.CheckName("mention", match[1])
		if err != nil || name == r.SenderID || slices.Contains(r.Mentions, name) || slices.Contains(r.Ignored, name) {
			continue
		}
		list := &r.NotParticipants
		if slices.Contains(participants, name) {
			list = &r.Unmentioned
		}
		if len(*list) < maxPointedOut && !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
}
