package wire

import (
	"strconv"
	"strings"
)

// rewrite converts a statement to PostgreSQL's syntax. It also returns which of the caller's arguments, counted from
// 1, the parameters $1, $2, ... take. It changes only differences of syntax:
//
//   - ? and ?N become $1, $2, ... in the order of their first appearance, since PostgreSQL refuses a parameter that the
//     text does not name. SQLite numbers $N by first appearance, whatever N is, so no statement is written that way.
//   - A plus sign before an operand, which keeps SQLite from using an index or a value, is removed.
//   - INDEXED BY and NOT INDEXED are removed. CROSS JOIN, which fixes SQLite's join order, becomes JOIN.
//   - An empty BLOB is greater than any text. A comparison with it becomes a test for NULL.
//   - json_object and json_array, which are keywords since PostgreSQL 16, are quoted, so that they are our functions.
//   - rowid, the order of insertion, becomes the column pos.
//   - temp.batch, the current rows, becomes the array in argument batchArgument. If the statement searches for a column
//     in temp.batch, the array is used as the key of an index search, which takes half the time of a join.
//
// Quoted text and comments are not changed.
func rewrite(text string) (sql string, arguments []int) {
	var out strings.Builder
	r := rewriter{numbers: map[int]int{}}
	var before token // the previous token, without comments
	for tokens := scan(text); len(tokens) > 0; {
		t := tokens[0]
		text, n := r.replace(before, tokens)
		if text != "" {
			out.WriteString(t.space + text)
		} else if n < len(tokens) && tokens[n].space == "" { // the removed token separated its two neighbours
			tokens[n].space = t.space
		}
		if t.kind != comment {
			before = t
		}
		tokens = tokens[n:]
	}
	return out.String(), r.arguments
}

// Rewrite returns the statement that a Conn sends for text, and which of the caller's arguments, counted from 1, its
// parameters take.
func Rewrite(text string) (sql string, arguments []int) {
	query, _ := reading(text)
	return rewrite(query)
}

type rewriter struct {
	arguments []int
	numbers   map[int]int // from the caller's argument to the parameter
	last      int         // the largest argument so far; a bare ? is the next one
}

// replace returns the text that replaces the first n tokens.
func (r *rewriter) replace(before token, tokens []token) (text string, n int) {
	words := [3]string{} // the first tokens, in capitals
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

// batch holds the tokens of the expression for all current rows.
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

// parameter returns the replacement of ? or ?N.
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

// batchArgument is the number, among the arguments that rewrite returns, of the array of the current rows.
const batchArgument = 0

// following holds the words after a table that are not an alias of the table.
var following = map[string]bool{"JOIN": true, "LEFT": true, "WHERE": true, "ORDER": true, "GROUP": true, "UNION": true}

// A token is a word, a number, a parameter, something quoted, a comment, or one character of anything else.
type token struct {
	kind  kind
	space string // before the token
	text  string
}

type kind int

const (
	symbol kind = iota
	name
	numeral
	quoted // text, a name or a BLOB
	parameter
	comment
)

// operand reports whether a plus sign after t is an addition.
func (t token) operand() bool {
	switch t.kind {
	case name:
		return !leading[strings.ToUpper(t.text)]
	case symbol:
		return t.text == ")"
	}
	return true
}

// leading holds the words after which an operand begins.
var leading = func() map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.Fields("SELECT WHERE AND OR NOT ON LIMIT OFFSET THEN ELSE WHEN CASE BY IN IS LIKE BETWEEN SET VALUES") {
		words[w] = true
	}
	return words
}()

// scan splits a text into tokens. White space at the end is dropped.
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

// first returns the kind and the length of the first token of a text.
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

// quotation returns the length of the quoted part at the beginning of a text. A doubled quote is part of the quoted
// text.
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

// until returns the length of a text up to and including end, or the whole length if the text does not contain end.
func until(text, end string) int {
	if i := strings.Index(text, end); i >= 0 {
		return i + len(end)
	}
	return len(text)
}

// span returns the number of bytes at the beginning of a text for which of returns true.
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
