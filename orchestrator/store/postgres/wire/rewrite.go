package wire

import (
	"strconv"
	"strings"
)

// rewrite returns a statement as PostgreSQL reads it, and which of the caller's arguments, counted from 1, its
// parameters $1, $2, ... take. It changes what differs in writing only:
//
//   - ? and ?N become $1, $2, ... in the order of their first appearance, since PostgreSQL refuses a parameter that the
//     text does not name. SQLite numbers $N by first appearance, whatever N is, so that no statement is written so.
//   - A plus in front of an operand, which keeps SQLite from using an index or a value, goes.
//   - INDEXED BY and NOT INDEXED go; CROSS JOIN, which fixes SQLite's order of joining, becomes JOIN.
//   - No text reaches an empty BLOB, which is greater than any: what is compared with it is one or is NULL.
//   - json_object and json_array, which are words of the language since PostgreSQL 16, are quoted, so that they are our functions.
//   - rowid, the order of insertion, becomes the column pos.
//   - temp.batch, the rows at hand, becomes the array that its argument, of number batchArgument, holds. Where a column is looked for in
//     it, the array is what an index is asked for, in half the time that a join takes.
//
// What is quoted or a comment stays as it is.
func rewrite(text string) (sql string, arguments []int) {
	var out strings.Builder
	r := rewriter{numbers: map[int]int{}}
	var before token // comments left out
	for tokens := scan(text); len(tokens) > 0; {
		t := tokens[0]
		text, n := r.replace(before, tokens)
		if text != "" {
			out.WriteString(t.space + text)
		} else if n < len(tokens) && tokens[n].space == "" { // nothing is left of it but what parts the two beside it
			tokens[n].space = t.space
		}
		if t.kind != comment {
			before = t
		}
		tokens = tokens[n:]
	}
	return out.String(), r.arguments
}

// Rewrite returns a statement as a Conn asks it, and which of the caller's arguments, counted from 1, its parameters
// take.
func Rewrite(text string) (sql string, arguments []int) {
	query, _ := reading(text)
	return rewrite(query)
}

type rewriter struct {
	arguments []int
	numbers   map[int]int // of the caller's arguments, to that of the parameter
	last      int         // the largest of the caller's so far: a bare ? is one more
}

// replace returns what stands for the first n of some tokens.
func (r *rewriter) replace(before token, tokens []token) (text string, n int) {
	words := [3]string{} // the first ones, in capitals
	for i := range min(len(words), len(tokens)) {
		if tokens[i].kind != quoted || i == 0 {
			words[i] = strings.ToUpper(tokens[i].text)
		}
	}
	t := tokens[0]
	switch {
	case t.kind == parameter:
		return r.parameter(t.text), 1
	case t.text == "+" && !before.operand():
		return "", 1
	case words[0] == "INDEXED" && words[1] == "BY":
		return "", 3
	case words[0] == "NOT" && words[1] == "INDEXED":
		return "", 2
	case words[0] == "CROSS" && words[1] == "JOIN":
		return "", 1
	case words[0] == "<" && isEmptyBlob(tokens[1:]):
		return "IS NOT NULL", 2
	case words[0] == ">" && words[1] == "=" && isEmptyBlob(tokens[2:]):
		return "IS NULL AND false", 3
	case t.kind == name && (words[0] == "JSON_OBJECT" || words[0] == "JSON_ARRAY") && before.text != ".":
		return `"` + strings.ToLower(t.text) + `"`, 1
	case words[0] == "ROWID":
		return "pos", 1
	case words[0] == "IN" && !strings.EqualFold(before.text, "NOT") && isBatch(tokens[1:]):
		return "= ANY (" + r.number(batchArgument) + "::bigint[])", 1 + len(batch)
	case words[0] == "TEMP" && words[1] == "." && words[2] == "BATCH":
		rows := "unnest(" + r.number(batchArgument) + "::bigint[]) AS "
		if len(tokens) > 3 && tokens[3].kind == name && !following[strings.ToUpper(tokens[3].text)] {
			return rows + tokens[3].text + "(seq)", 4
		}
		return rows + "batch(seq)", 3
	}
	return t.text, 1
}

func isEmptyBlob(tokens []token) bool {
	return len(tokens) > 0 && strings.EqualFold(tokens[0].text, "x''")
}

// batch are the tokens of all rows at hand.
var batch = scan("(SELECT seq FROM temp.batch)")

func isBatch(tokens []token) bool {
	if len(tokens) < len(batch) {
		return false
	}
	for i, t := range batch {
		if t.text != tokens[i].text {
			return false
		}
	}
	return true
}

// parameter returns what stands for ? or ?N.
func (r *rewriter) parameter(text string) string {
	n := r.last + 1
	if text != "?" {
		n, _ = strconv.Atoi(text[1:])
	}
	r.last = max(r.last, n)
	return r.number(n)
}

// number returns the parameter for the caller's n-th argument.
func (r *rewriter) number(n int) string {
	if r.numbers[n] == 0 {
		r.arguments = append(r.arguments, n)
		r.numbers[n] = len(r.arguments)
	}
	return "$" + strconv.Itoa(r.numbers[n])
}

// batchArgument is the number, among the arguments that rewrite returns, of the array of the rows at hand.
const batchArgument = 0

// following are the words behind a table that are no other name for it.
var following = map[string]bool{"JOIN": true, "LEFT": true, "WHERE": true, "ORDER": true, "GROUP": true, "UNION": true}

// A token is a word, a number, a parameter, something quoted, a comment, or one character of anything else.
type token struct {
	kind  kind
	space string // in front of it
	text  string
}

type kind int

const (
	symbol kind = iota
	name
	numeral
	quoted // as text, a name or a BLOB
	parameter
	comment
)

// operand reports whether a plus behind t adds to it.
func (t token) operand() bool {
	switch t.kind {
	case name:
		return !leading[strings.ToUpper(t.text)]
	case symbol:
		return t.text == ")"
	}
	return true
}

// leading are the words behind which an operand begins.
var leading = func() map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.Fields("SELECT WHERE AND OR NOT ON LIMIT OFFSET THEN ELSE WHEN CASE BY IN IS LIKE BETWEEN SET VALUES") {
		words[w] = true
	}
	return words
}()

// scan splits a text into its tokens. The space at the end is dropped.
func scan(text string) (tokens []token) {
	for {
		rest := strings.TrimLeft(text, " \t\r\n")
		space := text[:len(text)-len(rest)]
		if rest == "" {
			return tokens
		}
		kind, n := first(rest)
		tokens = append(tokens, token{kind, space, rest[:n]})
		text = rest[n:]
	}
}

// first returns the kind and the length of the token that a text begins with.
func first(text string) (kind, int) {
	c := text[0]
	switch {
	case c == '\'' || c == '"':
		return quoted, quotation(text)
	case (c == 'x' || c == 'X') && strings.HasPrefix(text[1:], "'"):
		return quoted, 1 + quotation(text[1:])
	case strings.HasPrefix(text, "--"):
		return comment, until(text, "\n")
	case strings.HasPrefix(text, "/*"):
		return comment, until(text, "*/")
	case c == '?':
		return parameter, 1 + span(text[1:], isDigit)
	case isDigit(c):
		return numeral, span(text, func(c byte) bool { return isDigit(c) || c == '.' })
	case isLetter(c):
		return name, span(text, func(c byte) bool { return isLetter(c) || isDigit(c) || c == '$' })
	}
	return symbol, 1
}

// quotation is the length of what is quoted at the beginning of a text. The quote stands twice for itself.
func quotation(text string) int {
	for i := 1; i < len(text); i++ {
		if text[i] == text[0] {
			if i+1 == len(text) || text[i+1] != text[0] {
				return i + 1
			}
			i++
		}
	}
	return len(text)
}

// until is the length of a text up to and with an end, all of it if there is none.
func until(text, end string) int {
	if i := strings.Index(text, end); i >= 0 {
		return i + len(end)
	}
	return len(text)
}

// span is how many bytes at the beginning of a text are of a class.
func span(text string, of func(byte) bool) int {
	for i := range len(text) {
		if !of(text[i]) {
			return i
		}
	}
	return len(text)
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c >= 0x80 }
