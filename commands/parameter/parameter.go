// Package parameter reads the parameters of commands: what the tags of a struct declare of them, and JSON into that
// struct.
package parameter

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom/orchestrator"
)

// Seconds is a span of time: a whole number of seconds in JSON; on the command line also 30s, 10m, 2h, 30d.
type Seconds int64

// Duration returns it as a time.Duration.
func (s Seconds) Duration() time.Duration { return time.Duration(s) * time.Second }

// Kind is how a parameter is written.
type Kind string

// The kinds of parameters.
const (
	String  Kind = "string"
	Integer Kind = "integer"
	Number  Kind = "number"
	Boolean Kind = "boolean"
	List    Kind = "array" // of strings
	JSON    Kind = "json"  // any JSON value
	Span    Kind = "seconds"
)

// Param describes one parameter, as its struct tags declare it:
//
//	json:"batch_size,omitempty"   its name; with omitempty it may be left out
//	desc:"messages at most"       what it is; required
//	check:"min=1,max=1000"        bounds: of a number, or of the bytes of a text or the elements of a list
//	                              also agent, agent|group, agent|group|role, id, oneof=a|b, or status, which is that of a message;
//	                              of a JSON value, object or text|object;
//	                              characters: the bounds of a text count those; private: no error repeats its value,
//	                              nor that of any other parameter of the command, nor a name that it does not have: what
//	                              is private may have come to the wrong place
//	default:"10"                  its value when it is left out
//	arg:"1"                       its place among the arguments on the command line; rest takes all that follow, for a
//	                              JSON value as a text, which needs no quotes of its own (- reads it from standard input)
//	flag:"grep"                   the name of its flag, where that is not its own
//	also:"type"                   a further name of its flag
//	with:"payload=message"        on the command line it is "message" where payload is given and it is not
//	remote:"inbox|webhook:*"      all that may be given over the network, since the rest names a file, a program or a private
//	                              network of the daemon's machine; * ends what may go on in any way
type Param struct {
	Name     string
	Desc     string
	Kind     Kind
	Required bool
	Default  string
	Arg      string
	Also     string    // a further name of its flag; "" is none
	With     [2]string // on the command line: the parameter with which it has a value of itself, and that; "" is none
	Min, Max *float64
	OneOf    []string
	NameOf   string // agent, agent|group, agent|group|role, id, status, or mention, which may be no name

	// TextOrObject: the JSON value is a text or an object. On the command line a text needs no quotes of its own.
	TextOrObject bool
	Object       bool // the JSON value is an object

	Characters bool     // Min and Max of a text count characters, not bytes
	Remote     []string // what alone may be given over the network; nil: anything
	// errors, which stand in the traces, repeat nothing of its value; all parameters of a command are, or none
	Private bool

	index   int
	pointer bool
	flag    string
}

var (
	rawType     = reflect.TypeFor[json.RawMessage]()
	secondsType = reflect.TypeFor[Seconds]()
	stringsType = reflect.TypeFor[[]string]()
)

// Of reads the tags of a struct of parameters.
func Of(zero any) ([]Param, error) {
	t := reflect.TypeOf(zero)
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("params must be a struct, but are %s", t)
	}
	var params []Param
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			return nil, fmt.Errorf("field %s has no JSON name", field.Name)
		}
		p := Param{
			Name: name, Desc: field.Tag.Get("desc"), Default: field.Tag.Get("default"), Arg: field.Tag.Get("arg"),
			flag: field.Tag.Get("flag"), Also: field.Tag.Get("also"), index: i,
		}
		p.With[0], p.With[1], _ = strings.Cut(field.Tag.Get("with"), "=")
		if p.Desc == "" {
			return nil, fmt.Errorf("parameter %s has no description", name)
		}
		kind := field.Type
		if kind.Kind() == reflect.Pointer {
			kind, p.pointer = kind.Elem(), true
		}
		var err error
		if p.Kind, err = kindOf(kind); err != nil {
			return nil, fmt.Errorf("parameter %s: %w", name, err)
		}
		if remote, some := field.Tag.Lookup("remote"); some {
			p.Remote = strings.Split(remote, "|")
		}
		p.Required = !strings.Contains(options, "omitempty") && p.Default == ""
		if err := p.readChecks(field.Tag.Get("check")); err != nil {
			return nil, fmt.Errorf("parameter %s: %w", name, err)
		}
		if err := p.checkDefault(kind); err != nil {
			return nil, fmt.Errorf("default of parameter %w", err)
		}
		params = append(params, p)
	}
	if slices.ContainsFunc(params, func(p Param) bool { return p.Private }) {
		for i := range params {
			params[i].Private = true
		}
	}
	return params, nil
}

// checkDefault holds the default to the parameter's own bounds.
func (p *Param) checkDefault(t reflect.Type) error {
	if p.Default == "" {
		return nil
	}
	return p.decode(p.defaultJSON(), reflect.New(t).Elem())
}

func kindOf(t reflect.Type) (Kind, error) {
	switch {
	case t == rawType:
		return JSON, nil
	case t == secondsType:
		return Span, nil
	case t == stringsType:
		return List, nil
	}
	switch t.Kind() {
	case reflect.String:
		return String, nil
	case reflect.Int, reflect.Int64:
		return Integer, nil
	case reflect.Float64:
		return Number, nil
	case reflect.Bool:
		return Boolean, nil
	}
	return "", fmt.Errorf("unsupported parameter type %s", t)
}

func (p *Param) readChecks(tag string) error {
	if tag == "" {
		return nil
	}
	for part := range strings.SplitSeq(tag, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "min", "max":
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return fmt.Errorf("check %q: %w", part, err)
			}
			if key == "min" {
				p.Min = &n
			} else {
				p.Max = &n
			}
		case "oneof":
			p.OneOf = strings.Split(value, "|")
		case "agent", "agent|group", "agent|group|role", "id", "mention":
			p.NameOf = key
		case "status":
			p.NameOf = key
			for _, status := range orchestrator.Statuses {
				p.OneOf = append(p.OneOf, string(status))
			}
		case "text|object":
			p.TextOrObject = true
		case "object":
			p.Object = true
		case "characters":
			p.Characters = true
		case "private":
			p.Private = true
		default:
			return fmt.Errorf("unknown check %q", part)
		}
	}
	return nil
}

// Flag is the parameter's flag on the command line, without dashes: threadId and BATCH_SIZE give thread-id, batch-size.
func (p *Param) Flag() string {
	return cmp.Or(p.flag, strings.ReplaceAll(Uncamel(p.Name), "_", "-"))
}

// Uncamel writes a name without capitals: SendMessage is send-message.
func Uncamel(name string) string {
	if name == strings.ToLower(name) {
		return name
	}
	var b strings.Builder
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			if i > 0 && name[i-1] >= 'a' && name[i-1] <= 'z' {
				b.WriteByte('-')
			}
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Bounds says in words what the parameter may be; "" when anything of its kind may stand.
func (p *Param) Bounds() string {
	what := map[Kind]string{String: " bytes", JSON: " bytes", List: " elements", Span: " seconds"}[p.Kind]
	if p.Characters {
		what = " characters"
	}
	switch {
	case len(p.OneOf) > 0:
		return strings.Join(p.OneOf, ", ")
	case p.Min != nil && p.Max != nil:
		return fmt.Sprintf("%s to %s%s", plain(*p.Min), plain(*p.Max), what)
	case p.Min != nil:
		return fmt.Sprintf("at least %s%s", plain(*p.Min), what)
	case p.Max != nil:
		return fmt.Sprintf("at most %s%s", plain(*p.Max), what)
	}
	return ""
}

func plain(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// invalid is the error for a parameter that is not as it must be.
func (p *Param) invalid(format string, args ...any) *orchestrator.Error {
	return orchestrator.InvalidParam(p.Name, format, args...)
}

// isWithin reports whether a number, or the length of something, is in the bounds.
func (p *Param) isWithin(n float64) bool {
	return (p.Min == nil || n >= *p.Min) && (p.Max == nil || n <= *p.Max)
}

// within is Bounds as it follows "must be".
func (p *Param) within() string {
	if p.Min != nil && p.Max != nil {
		return "from " + p.Bounds()
	}
	return p.Bounds()
}

// inBounds checks a number, which value writes.
func (p *Param) inBounds(n float64, value string) error {
	if p.isWithin(n) {
		return nil
	}
	return p.mustBe(p.within(), value)
}

// lengthInBounds checks the length of something.
func (p *Param) lengthInBounds(n int) error {
	if p.isWithin(float64(n)) {
		return nil
	}
	return p.invalid("must have %s, but has %d", p.Bounds(), n)
}

// invalidName is the error of a check of a name, with the parameter that holds it.
func (p *Param) invalidName(err error) error {
	e, ok := errors.AsType[*orchestrator.Error](err)
	if !ok {
		return p.invalid("%s", err)
	}
	return p.invalid("%s", e.WithoutHint()).WithHint("%s", e.Hint)
}

// hintOneOf is the hint for a text that is none of the ones that may stand there; "" if nothing is known about it.
func (p *Param) hintOneOf(s string) string {
	if p.Private {
		return ""
	}
	if p.NameOf == "status" && (s == "read" || s == "unread") {
		return "Use `delivered`, which includes both read and unread messages. To list only the unread messages of an agent, run `mailroom inbox`"
	}
	return orchestrator.DidYouMean(s, p.OneOf)
}

// checkText validates a text and brings a name into its one form.
func (p *Param) checkText(s string) (string, error) {
	if strings.ContainsRune(s, 0) {
		return "", p.invalid("must not contain a NUL character")
	}
	switch p.NameOf {
	case "agent", "agent|group", "agent|group|role":
		check, kind := orchestrator.CheckName, p.NameOf
		if others, some := strings.CutSuffix(kind, "|role"); some {
			check, kind = orchestrator.CheckRecipient, others
		}
		name, err := check(strings.ReplaceAll(kind, "|", " or "), s)
		if err != nil && p.Private {
			return "", p.invalid("must be a name that starts with a letter, followed by letters, digits, '_', or '-'")
		}
		if err != nil {
			return "", p.invalidName(err)
		}
		return name, nil
	case "id":
		if s == "" || len(s) > 256 {
			return "", p.invalid("must have 1 to 256 bytes, but has %d", len(s))
		}
	}
	if len(p.OneOf) > 0 && !slices.Contains(p.OneOf, s) {
		return "", p.mustBe("one of "+p.Bounds(), strconv.Quote(orchestrator.Clip(s))).
			WithHint("%s", p.hintOneOf(s))
	}
	if p.Characters {
		return s, p.lengthInBounds(utf8.RuneCountInString(s))
	}
	return s, p.lengthInBounds(len(s))
}

// Value returns the parameter's value in the struct of its command's parameters.
func (p *Param) Value(params any) reflect.Value { return reflect.ValueOf(params).Field(p.index) }

// OnlyHere reports whether a value of a parameter is refused to a caller over the network.
func (p *Param) OnlyHere(value string) bool {
	return p.Remote != nil && !slices.ContainsFunc(p.Remote, func(allowed string) bool {
		prefix, open := strings.CutSuffix(allowed, "*")
		return value == allowed || open && strings.HasPrefix(value, prefix)
	})
}
