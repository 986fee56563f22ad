// Package parameter reads the declarations of command parameters from struct tags, and decodes JSON into those
// structs.
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

// Seconds is a duration. It is a whole number of seconds in JSON; the command line also accepts 30s, 10m, 2h and 30d.
type Seconds int64

// Duration returns s as a time.Duration.
func (s Seconds) Duration() time.Duration { return time.Duration(s) * time.Second }

// Kind is the type of a parameter's value.
type Kind string

// Kinds of parameters.
const (
	String  Kind = "string"
	Integer Kind = "integer"
	Number  Kind = "number"
	Boolean Kind = "boolean"
	List    Kind = "array" // of strings
	JSON    Kind = "json"  // any JSON value
	Span    Kind = "seconds"
)

// Param describes one parameter, as declared by its struct tags:
//
//	json:"batch_size,omitempty"   its name; with omitempty it may be left out
//	desc:"messages at most"       its description; required
//	check:"min=1,max=1000"        bounds of a number, of the bytes of a text, or of the elements of a list
//	                              also agent, agent|group, agent|group|role, id, mention, oneof=a|b, or status (a
//	                              message's);
//	                              for a JSON value: object or text|object;
//	                              characters: the bounds of a text count characters; private: no error contains the
//	                              value, the value of any other parameter of the command, or an unknown key, because a
//	                              private text may have been given in the wrong place
//	default:"10"                  the value if it is left out
//	arg:"1"                       its position among the command-line arguments; rest takes all that follow, for a JSON
//	                              value as a text, which needs no JSON quotes (- reads it from standard input)
//	flag:"grep"                   the name of its flag, if it differs from the parameter's name
//	also:"type"                   a further name of its flag
//	with:"payload=message"        on the command line, "message" if payload is given and this parameter is not
//	remote:"inbox|webhook:*"      the only values allowed over the network, because others name a file, a program or a
//	                              private network of the daemon's machine; * matches any ending
type Param struct {
	Name     string
	Desc     string
	Kind     Kind
	Required bool
	Default  string
	Arg      string
	Also     string    // a further name of its flag; "" for none
	With     [2]string // on the command line: if the parameter With[0] is given, the default is With[1]; "" for none
	Min, Max *float64
	OneOf    []string
	NameOf   string // agent, agent|group, agent|group|role, id, status, or mention, which need not be a name

	// TextOrObject reports whether the JSON value is a text or an object. On the command line, a text needs no JSON
	// quotes.
	TextOrObject bool
	Object       bool // the JSON value is an object

	Characters bool     // Min and Max of a text count characters, not bytes
	Remote     []string // the only values allowed over the network; nil allows any
	// Private reports whether errors, which are stored in traces, omit the value. Of sets it for all parameters of a
	// command if it is set for one of them.
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

// Of returns the parameters that the tags of a struct declare.
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

// checkDefault checks the default against the parameter's own bounds.
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

// Flag returns the command-line flag without dashes: threadId and BATCH_SIZE become thread-id and batch-size.
func (p *Param) Flag() string {
	return cmp.Or(p.flag, strings.ReplaceAll(Uncamel(p.Name), "_", "-"))
}

// Uncamel returns a name in lower case with dashes: SendMessage becomes send-message.
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

// Bounds describes in words the values that the parameter may have, or returns "" if it has no bounds.
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

// invalid returns the error for an invalid parameter.
func (p *Param) invalid(format string, args ...any) *orchestrator.Error {
	return orchestrator.InvalidParam(p.Name, format, args...)
}

// isWithin reports whether a number or a length is within the bounds.
func (p *Param) isWithin(n float64) bool {
	return (p.Min == nil || n >= *p.Min) && (p.Max == nil || n <= *p.Max)
}

// within returns Bounds in a form that follows "must be".
func (p *Param) within() string {
	if p.Min != nil && p.Max != nil {
		return "from " + p.Bounds()
	}
	return p.Bounds()
}

// inBounds checks a number. value is the number as it was written.
func (p *Param) inBounds(n float64, value string) error {
	if p.isWithin(n) {
		return nil
	}
	return p.mustBe(p.within(), value)
}

// lengthInBounds checks a length.
func (p *Param) lengthInBounds(n int) error {
	if p.isWithin(float64(n)) {
		return nil
	}
	return p.invalid("must have %s, but has %d", p.Bounds(), n)
}

// invalidName turns the error of a name check into one that names the parameter.
func (p *Param) invalidName(err error) error {
	e, ok := errors.AsType[*orchestrator.Error](err)
	if !ok {
		return p.invalid("%s", err)
	}
	return p.invalid("%s", e.WithoutHint()).WithHint("%s", e.Hint)
}

// hintOneOf returns a hint for a text that is not among the allowed values, or "" if there is no hint.
func (p *Param) hintOneOf(s string) string {
	if p.Private {
		return ""
	}
	if p.NameOf == "status" && (s == "read" || s == "unread") {
		return "Use `delivered`, which includes both read and unread messages. To list only the unread messages of an agent, run `mailroom inbox`"
	}
	return orchestrator.DidYouMean(s, p.OneOf)
}

// checkText validates a text and normalizes a name.
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

// Value returns the value of the parameter in params, the struct of the command's parameters.
func (p *Param) Value(params any) reflect.Value { return reflect.ValueOf(params).Field(p.index) }

// OnlyHere reports whether a value of the parameter is refused to callers over the network.
func (p *Param) OnlyHere(value string) bool {
	return p.Remote != nil && !slices.ContainsFunc(p.Remote, func(allowed string) bool {
		prefix, open := strings.CutSuffix(allowed, "*")
		return value == allowed || open && strings.HasPrefix(value, prefix)
	})
}
