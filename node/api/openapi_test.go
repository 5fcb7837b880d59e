package api_test

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/node/api"
)

// object is a JSON object of the document.
type object = map[string]any

// document makes the document: routes from the table, schemas from types, words from comments.
type document struct {
	schemas object
	words   map[string]map[string]string // of "package.Type": its fields' comments, "" for its own
	read    map[string]bool              // packages
}

func openAPI(t *testing.T) object {
	t.Helper()
	d := &document{schemas: object{}, words: map[string]map[string]string{}, read: map[string]bool{}}
	paths := object{}
	for _, r := range api.Routes() {
		method, path, _ := strings.Cut(r.Pattern, " ")
		p, _ := paths[path].(object)
		if p == nil {
			p = object{}
			paths[path] = p
		}
		p[strings.ToLower(method)] = d.operation(r, path)
	}
	maps.Copy(paths, d.door())
	d.schema(reflect.TypeFor[api.Preview]())
	d.schema(reflect.TypeFor[api.Error]())
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Covey: one peer", "version": "1",
			"description": "What a peer answers at its socket, and over TCP where its owner opened that: docs/api.md. Errors are {\"error\": {\"code\", \"message\"}}; streams are JSON lines, of which the last may be an error.",
		},
		"paths": paths,
		"components": object{
			"schemas":         d.schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "over TCP: `peer token create`"}},
		},
	}
}

func (d *document) operation(r api.Route, path string) object {
	op := object{"operationId": operationID(r), "summary": r.About, "description": "Token over TCP: " + cmp.Or(string(r.Scope()), "none is enough, this is answered at the socket only") + "."}
	if s := r.Scope(); s != api.NoScope {
		op["security"] = []any{object{"token": []any{string(s)}}}
	}
	var params []any
	if strings.Contains(path, "{id}") {
		params = append(params, object{"name": "id", "in": "path", "required": true, "schema": object{"type": "string"}, "description": "an id, a unique prefix of one, a name, or `last`"})
	}
	for _, q := range r.Query {
		params = append(params, object{"name": q.Name, "in": "query", "schema": queried(q), "description": q.About})
	}
	if params != nil {
		op["parameters"] = params
	}
	if c := d.taken(r); c != nil {
		op["requestBody"] = object{"required": true, "content": c}
	}
	media, answer := cmp.Or(r.Media, "application/json"), d.schema(r.Answers)
	if r.Stream {
		media = "application/jsonl"
	}
	if slices.ContainsFunc(r.Query, func(q api.Param) bool { return strings.Contains(q.About, "a Preview") }) {
		answer = object{"anyOf": []any{answer, d.schema(reflect.TypeFor[api.Preview]())}}
	}
	op["responses"] = d.responses(media, answer)
	return op
}

func (d *document) responses(media string, answer object) object {
	wrong := object{"type": "object", "required": []any{"error"}, "properties": object{"error": d.schema(reflect.TypeFor[api.Error]())}}
	return object{
		"200":     object{"description": "done", "content": object{media: object{"schema": answer}}},
		"default": object{"description": "why not", "content": object{"application/json": object{"schema": wrong}}},
	}
}

// backendMethod finds the method of Backend in the name of a function.
var backendMethod = regexp.MustCompile(`\.Backend\.(\w+)`)

// operationID is what generators call a call: the method of Backend that it leads to.
func operationID(r api.Route) string {
	_, path, _ := strings.Cut(r.Pattern, "/")
	for _, f := range r.Of {
		if m := backendMethod.FindStringSubmatch(runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()); m != nil {
			return strings.ToLower(m[1][:1]) + m[1][1:]
		}
	}
	return strings.Split(path, "/")[1] // /debug/pprof/{id}
}

// queried is what a parameter of a query may be. Flags are "1" or not there.
func queried(q api.Param) object {
	first, _, _ := strings.Cut(q.About, ":")
	switch {
	case first == "1" || first == "true":
		return object{"type": "string", "enum": []any{first}}
	case slices.Contains([]string{"limit", "cells", "px", "slot", "tail", "seconds"}, q.Name):
		return object{"type": "integer", "minimum": 1}
	case q.Name == "since" && strings.Contains(q.About, "after this time"):
		return object{"type": "string", "format": "date-time"}
	case q.Name == "stream":
		return object{"type": "string", "enum": []any{"stdout", "stderr"}}
	case q.Name == "sort":
		var all []any
		for _, by := range []string{"slot", "took", "started", "ended"} {
			all = append(all, by, "-"+by)
		}
		return object{"type": "string", "enum": all}
	}
	return object{"type": "string"}
}

// door is what is answered over TCP and not at the socket, by package door.
func (d *document) door() object {
	nothing := object{"type": "object"}
	return object{
		"/login": object{"post": object{
			"operationId": "login", "summary": "Make a token of the code in the link of `peer web`, once",
			"description": "Over TCP only, and without a token.", "security": []any{},
			"requestBody": object{"required": true, "content": object{"application/json": object{"schema": object{"type": "object", "required": []any{"code"}, "properties": object{"code": object{"type": "string"}}}}}},
			"responses":   d.responses("application/json", d.schema(reflect.TypeFor[api.AccessToken]())),
		}},
		"/logout": object{"post": object{
			"operationId": "logout", "summary": "End the token that is shown, and what it let in",
			"description": "Over TCP only; any token.", "security": []any{object{"token": []any{}}},
			"requestBody": object{"required": true, "content": object{"application/json": object{"schema": nothing}}},
			"responses":   d.responses("application/json", nothing),
		}},
	}
}

func TestEveryCallOfTheDocumentHasANameOfItsOwn(t *testing.T) {
	seen := map[string]string{}
	for path, methods := range openAPI(t)["paths"].(object) {
		for method, op := range methods.(object) {
			id, _ := op.(object)["operationId"].(string)
			if other := seen[id]; other != "" || !regexp.MustCompile(`^[a-z][A-Za-z]+$`).MatchString(id) {
				t.Errorf("%s %s is called %q, as is %q", method, path, id, other)
			}
			seen[id] = method + " " + path
		}
	}
}

func (d *document) taken(r api.Route) object {
	switch {
	case r.Body != "":
		return object{r.Body: object{}}
	case r.Takes == nil:
		return nil
	}
	c := object{"application/json": object{"schema": d.schema(r.Takes)}}
	if r.Pattern == "POST /v1/jobs" {
		c[api.JobFileType] = object{"schema": object{"type": "string", "description": "a job file, as `peer submit` takes it"}}
	}
	return c
}

// name is a type's name in the document: types of other packages have that in front.
func name(t reflect.Type) string {
	if t.PkgPath() == "github.com/coveyproject/covey/node/api" {
		return t.Name()
	}
	return filepath.Base(t.PkgPath()) + "." + t.Name()
}

func (d *document) schema(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[[]byte]():
		return object{"type": "string", "contentEncoding": "base64"}
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return object{"type": "string"}
	case t.Implements(reflect.TypeFor[json.Marshaler]()): // counts by name
		return object{"type": "object", "additionalProperties": object{"type": "integer"}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.schema(t.Elem())
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": d.schema(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": d.schema(t.Elem())}
	case reflect.Struct:
		return d.structure(t)
	}
	return object{"type": "integer"}
}

func (d *document) structure(t reflect.Type) object {
	if t.Name() == "" {
		return object{"type": "object"}
	}
	ref := object{"$ref": "#/components/schemas/" + name(t)}
	if d.schemas[name(t)] != nil {
		return ref
	}
	s := object{"type": "object"}
	d.schemas[name(t)] = s
	props, required := object{}, []any{}
	d.fields(t, props, &required)
	s["properties"] = props
	if len(required) > 0 {
		s["required"] = required
	}
	if w := d.wordsOf(t)[""]; w != "" {
		s["description"] = w
	}
	return ref
}

func (d *document) fields(t reflect.Type, props object, required *[]any) {
	for f := range t.Fields() {
		tag, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == "-":
			continue
		case f.Anonymous && tag == "":
			d.fields(f.Type, props, required)
			continue
		}
		p := maps.Clone(d.schema(f.Type))
		if f.Type.Kind() == reflect.Pointer && opts == "" {
			p["type"] = []any{p["type"], "null"}
		}
		if w := d.wordsOf(t)[f.Name]; w != "" {
			p["description"] = w
		}
		props[cmp.Or(tag, f.Name)] = p
		if opts == "" {
			*required = append(*required, cmp.Or(tag, f.Name))
		}
	}
}

// wordsOf are the comments on a type and its fields, read from its package's files.
func (d *document) wordsOf(t reflect.Type) map[string]string {
	pkg := t.PkgPath()
	if !d.read[pkg] {
		d.read[pkg] = true
		files, _ := filepath.Glob(filepath.Join("../..", strings.TrimPrefix(pkg, "github.com/coveyproject/covey/"), "*.go"))
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil || strings.HasSuffix(file, "_test.go") {
				continue
			}
			d.collect(pkg, f)
		}
	}
	return d.words[pkg+"."+t.Name()]
}

func (d *document) collect(pkg string, f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		g, ok := n.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			return true
		}
		for _, spec := range g.Specs {
			ts := spec.(*ast.TypeSpec)
			st, ok := ts.Type.(*ast.StructType)
			if !ok {
				continue
			}
			w := map[string]string{"": text(cmp.Or(ts.Doc, g.Doc))}
			for _, f := range st.Fields.List {
				for _, n := range f.Names {
					w[n.Name] = cmp.Or(text(f.Comment), text(f.Doc))
				}
			}
			d.words[pkg+"."+ts.Name.Name] = w
		}
		return false
	})
}

func text(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }

// write writes objects that hold objects with a line for each, and all else in one line.
func write(b *strings.Builder, v any, indent string) {
	o, ok := v.(object)
	if line, err := json.Marshal(v); !ok && err == nil {
		b.Write(bytes.TrimSpace(line))
		return
	}
	b.WriteString("{")
	for i, k := range slices.Sorted(maps.Keys(o)) {
		fmt.Fprintf(b, "%s\n%s%q: ", strings.Repeat(",", min(i, 1)), indent+" ", k)
		write(b, o[k], indent+" ")
	}
	b.WriteString("\n" + indent + "}")
}

// A document made by hand would soon say something else than the server does.
func TestTheDocumentIsMadeOfTheTableOfRoutes(t *testing.T) {
	doc := openAPI(t)
	components := doc["components"].(object)
	for _, part := range []object{doc["paths"].(object), components["schemas"].(object)} {
		for k, v := range part {
			var line bytes.Buffer
			e := json.NewEncoder(&line)
			e.SetEscapeHTML(false)
			if err := e.Encode(v); err != nil {
				t.Fatal(err)
			}
			part[k] = json.RawMessage(line.Bytes())
		}
	}
	var b strings.Builder
	write(&b, doc, "")
	if err := golden.Check("openapi.json", b.String()+"\n"); err != nil {
		t.Fatal(err)
	}
}

func TestEveryMethodOfABackendHasARoute(t *testing.T) {
	led := map[string]bool{}
	for _, r := range api.Routes() {
		for _, f := range r.Of {
			name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
			led[backendMethod.FindString(name)] = true
		}
	}
	for m := range reflect.TypeFor[api.Backend]().Methods() {
		if !led[".Backend."+m.Name] {
			t.Errorf("no route leads to %s: add one to Routes", m.Name)
		}
	}
	if led[""] {
		t.Error("a route leads to something that is no method of Backend: say which with leadsTo")
	}
}

// fits says why a value is not as a schema of the document has it.
func fits(schemas object, s object, v any, at string) error {
	if ref, ok := s["$ref"].(string); ok {
		return fits(schemas, schemas[filepath.Base(ref)].(object), v, at)
	}
	kind := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Float64: "number", reflect.Slice: "array", reflect.Map: "object"}[reflect.ValueOf(v).Kind()]
	if n, ok := v.(float64); ok && n == float64(int64(n)) && strings.Contains(fmt.Sprint(s["type"]), "integer") {
		kind = "integer"
	}
	if want := fmt.Sprint(s["type"]); !slices.Contains(strings.Fields(strings.Trim(want, "[]")), cmp.Or(kind, "null")) {
		return fmt.Errorf("%s is %v, the document wants %v", at, v, want)
	}
	switch v := v.(type) {
	case []any:
		for i, x := range v {
			if err := fits(schemas, s["items"].(object), x, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case object:
		return fitsObject(schemas, s, v, at)
	}
	return nil
}

func fitsObject(schemas object, s, v object, at string) error {
	required, _ := s["required"].([]any)
	for _, r := range required {
		if _, ok := v[r.(string)]; !ok {
			return fmt.Errorf("%s has no %s", at, r)
		}
	}
	props, _ := s["properties"].(object)
	for k, x := range v {
		p, ok := props[k].(object)
		if !ok {
			p, ok = s["additionalProperties"].(object)
		}
		if !ok {
			return fmt.Errorf("%s.%s is not in the document", at, k)
		}
		if err := fits(schemas, p, x, at+"."+k); err != nil {
			return err
		}
	}
	return nil
}

func TestEveryAnswerFitsItsSchema(t *testing.T) {
	var doc object
	if err := json.Unmarshal([]byte(api.OpenAPI()), &doc); err != nil {
		t.Fatal(err)
	}
	schemas := doc["components"].(object)["schemas"].(object)
	for name, v := range answers() {
		s, ok := schemas[name].(object)
		if !ok {
			t.Errorf("%s is not in the document", name)
			continue
		}
		b, _ := json.Marshal(v)
		var back any
		_ = json.Unmarshal(b, &back)
		if err := fits(schemas, s, back, name); err != nil {
			t.Error(err)
		}
		if back.(object)["more than it says"] = 1.0; fits(schemas, s, back, name) == nil {
			t.Errorf("%s: anything fits", name)
		}
	}
}
