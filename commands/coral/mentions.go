package coral

import (
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/pattern"
)

// mentioned reads mentions as agents write them: NAME or @NAME, in any case. What is no name stays as it was.
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

// The content's names as @NAME. Code has such words, too, so that what stands in backquotes counts for nothing.
var (
	code  = pattern.New("(?s)```.*?```|`[^`\n]*`")
	named = pattern.New(`(?:^|[^\pL\pN_.@/-])@([A-Za-z][A-Za-z0-9_-]*)`)
)

// maxPointedOut bounds the names that an answer points out.
const maxPointedOut = 20

// pointOut says which names the content has as @NAME that are no mentions. Whoever writes them mostly means to be
// heard.
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
