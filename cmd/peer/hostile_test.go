package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
)

// hostileValue fills every string of a value of the API with hostile text, and everything else with
// something: bools with yes.
func hostileValue(v reflect.Value, yes bool, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Bool:
		v.SetBool(yes)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(2)
	case reflect.Uint, reflect.Uint64, reflect.Uint32:
		v.SetUint(2)
	case reflect.Float64:
		v.SetFloat(2)
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			hostileValue(v.Elem(), yes, depth-1)
		}
	case reflect.Slice:
		if depth > 0 && v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			hostileValue(v.Index(0), yes, depth-1)
			hostileValue(v.Index(1), yes, depth-1)
		}
	case reflect.Map:
		if depth > 0 && v.Type().Key().Kind() == reflect.String {
			one := reflect.New(v.Type().Elem()).Elem()
			hostileValue(one, yes, depth-1)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf(hostile).Convert(v.Type().Key()), one)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Now()))
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && v.Type().Field(i).Tag.Get("json") != "-" {
				hostileValue(f, yes, depth)
			}
		}
	}
}

// hostilePeer answers every call of the API with hostile text wherever an answer has text.
func hostilePeer(t *testing.T, yes bool) (data string) {
	t.Helper()
	data, err := os.MkdirTemp("", "peer") // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(data) })
	mux := http.NewServeMux()
	for _, r := range api.Routes() {
		if r.Answers == nil {
			continue
		}
		v := reflect.New(r.Answers)
		hostileValue(v.Elem(), yes, 6)
		if tasks, is := v.Interface().(*api.Tasks); is {
			v = reflect.ValueOf(&api.Tasks{Tasks: tasks.Tasks, AsOf: tasks.AsOf}) // as it is streamed
		}
		body, err := json.Marshal(v.Interface())
		if err != nil {
			t.Fatalf("%s: %v", r.Pattern, err)
		}
		mux.HandleFunc(r.Pattern, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(append(body, '\n')) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": api.Errorf(api.Conflict, "%s", hostile)})
	})
	if err := os.MkdirAll(filepath.Dir(api.SocketPath(data)), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", api.SocketPath(data))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: mux}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return data
}

// speaksToTheTerminal reports whether a text has what moves, colours or reorders what is shown, a
// line that hostile text begins included.
func speaksToTheTerminal(text string) bool {
	return strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), unprintable) ||
		slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool { return strings.HasPrefix(line, `\u202edne`) })
}

func TestNoCommandLetsAnAnswerSpeakToTheTerminal(t *testing.T) {
	commands := [][]string{
		{"status"},
		{"peers"},
		{"peers", "--wide"},
		{"jobs"},
		{"job", "x"},
		{"tasks", "x"},
		{"tasks", "x", "--wide"},
		{"explain", "x"},
		{"doctor"},
		{"doctor", "--all"},
		{"trust"},
		{"trust", "list"},
		{"key"},
		{"set"},
		{"label", "x"},
		{"label", "x", "a=b"},
		{"roles", "x"},
		{"roles", "x", "read"},
		{"drain", "x"},
		{"pause", "x"},
		{"df"},
		{"ticket", "--list"},
		{"token", "list"},
		{"token", "create", "x"},
		{"recover", "--yes"},
		{"remove", "x"},
		{"remove", "x", "--revoke"},
		{"thaw"},
		{"cancel", "x"},
		{"retry", "x"},
		{"renew", "x"},
		{"scale", "x=2"},
		{"rollback", "x"},
		{"rebalance", "x"},
		{"rebalance", "x", "--dry-run"},
		{"pin", "x"},
		{"unpin", "x"},
		{"trigger", "x"},
		{"wait", "x"},
		{"ticket"},
		{"run", "--detach", "--", "true"},
		{"logs", "x"},
	}
	spoke := 0
	for _, yes := range []bool{true, false} {
		data := hostilePeer(t, yes)
		for _, words := range commands {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			var out bytes.Buffer
			Main(ctx, append([]string{"--data", data}, words...), Streams{In: strings.NewReader(""), Out: &out, Err: &out})
			cancel()
			text := out.String()
			if speaksToTheTerminal(text) {
				t.Errorf("peer %s (%v): %q", strings.Join(words, " "), yes, text)
			}
			if strings.Contains(text, `\x1b]0;owned`) {
				spoke++
			} else {
				t.Logf("peer %s (%v) shows none of it: %.200q", strings.Join(words, " "), yes, text)
			}
		}
	}
	if spoke < len(commands) {
		t.Errorf("only %d of %d commands showed any hostile text: the test looks past them", spoke, 2*len(commands))
	}
}
