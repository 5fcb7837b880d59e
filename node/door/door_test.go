package door_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/door"
)

// peer answers what tests ask of it.
type peer struct {
	api.Backend
	*door.Door

	news chan api.Event

	mu   sync.Mutex
	said []string
}

func (p *peer) Status(context.Context) (api.Status, error) { return api.Status{Name: "one"}, nil }
func (p *peer) Down(context.Context) error                 { p.note("down"); return nil }
func (p *peer) Block(context.Context, api.Block) error     { p.note("block"); return nil }
func (p *peer) Metrics(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, "covey_jobs 1\n")
	return err
}

// Watch tells what the test has to tell.
func (p *peer) Watch(ctx context.Context, _ string, send func(api.Event) error) error {
	for e := (api.Event{Kind: "synced"}); ; {
		if err := send(e); err != nil {
			return err
		}
		select {
		case e = <-p.news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// PutFiles takes what comes until no more does.
func (p *peer) PutFiles(_ context.Context, r *api.PutReader) (api.Put, error) {
	_, _, err := r.Next()
	return api.Put{}, err
}

func (p *peer) Cancel(_ context.Context, id string) (api.Job, error) {
	p.note("cancel " + id)
	return api.Job{ID: id}, nil
}

func (p *peer) note(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, s)
}

func (p *peer) AccessTokens(ctx context.Context) (api.AccessTokens, error) {
	return p.Door.AccessTokens(ctx)
}

func (p *peer) CreateToken(ctx context.Context, r api.TokenRequest) (api.AccessToken, error) {
	return p.Door.CreateToken(ctx, r)
}

func (p *peer) RevokeToken(ctx context.Context, id string) error { return p.Door.RevokeToken(ctx, id) }

func (p *peer) OpenWeb(ctx context.Context, r api.TokenRequest) (api.WebLink, error) {
	return p.Door.OpenWeb(ctx, r)
}

// serve has a door open for as long as the test lasts.
func serve(t *testing.T, l door.Listen) (*peer, string) {
	t.Helper()
	p := &peer{news: make(chan api.Event)}
	var err error
	p.Door, err = door.New(door.Config{Path: filepath.Join(t.TempDir(), "tokens"), Listen: l, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	p.SetAPI(api.NewHandler(p, nil))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for l.Addr != "" {
		a, _ := p.AccessTokens(t.Context())
		if len(a.Open) > 0 {
			return p, a.Open[0]
		}
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	return p, ""
}

func (p *peer) token(t *testing.T, scope api.Scope) string {
	t.Helper()
	a, err := p.CreateToken(t.Context(), api.TokenRequest{Scope: scope, Expires: 60})
	if err != nil {
		t.Fatal(err)
	}
	return a.Secret
}

// ask is one request, with headers "Name: value".
func ask(t *testing.T, method, url, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		if r.Header.Set(k, v); k == "Host" {
			r.Host = v
		}
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), resp.Header
}

func TestEachScopeDoesWhatItSaysAndNoMore(t *testing.T) {
	p, url := serve(t, door.Listen{Addr: "127.0.0.1:0"})
	calls := map[string][3]int{ // by a token for read, submit, admin
		"GET /v1/status":         {200, 200, 200},
		"GET /metrics":           {200, 200, 200},
		"POST /v1/jobs/j/cancel": {403, 200, 200},
		"POST /v1/down":          {403, 403, 200},
		"POST /v1/testnet/block": {403, 403, 403},
		"GET /v1/tokens":         {403, 403, 403},
		"POST /v1/tokens":        {403, 403, 403},
		"POST /v1/web":           {403, 403, 403},
		"GET /debug/pprof/heap":  {403, 403, 403},
		"GET /v1/nothing":        {404, 404, 404},
		"GET /":                  {200, 200, 200},
	}
	for i, scope := range []api.Scope{api.ReadScope, api.SubmitScope, api.AdminScope} {
		secret := p.token(t, scope)
		for call, want := range calls {
			method, path, _ := strings.Cut(call, " ")
			if got, body, _ := ask(t, method, url+path[1:], "{}", "Authorization: Bearer "+secret, "Content-Type: application/json"); got != want[i] {
				t.Errorf("%s with a token for %s: %d %s, want %d", call, scope, got, body, want[i])
			}
		}
	}
	slices.Sort(p.said)
	if got := strings.Join(p.said, ","); got != "cancel j,cancel j,down" {
		t.Errorf("done: %s", got)
	}
}

func TestWhoeverAttacksTheDoorIsRefusedAndNothingIsDone(t *testing.T) {
	p, url := serve(t, door.Listen{Addr: "127.0.0.1:0"})
	host := strings.Trim(strings.TrimPrefix(url, "http://"), "/")
	good := "Authorization: Bearer " + p.token(t, api.AdminScope)
	typed := "Content-Type: application/json"
	for what, c := range map[string]struct {
		method, path, body string
		headers            []string
		want               int
	}{
		"another Host":                      {"GET", "v1/status", "", []string{good, "Host: evil.example"}, 421},
		"another Host for the page":         {"GET", "", "", []string{"Host: evil.example"}, 421},
		"another port in Host":              {"GET", "v1/status", "", []string{good, "Host: 127.0.0.1:1"}, 421},
		"the Host without its port":         {"GET", "v1/status", "", []string{good, "Host: 127.0.0.1"}, 421},
		"no token":                          {"GET", "v1/status", "", nil, 401},
		"no token, where nothing is":        {"GET", "v1/nothing", "", nil, 401},
		"an empty token":                    {"GET", "v1/status", "", []string{"Authorization: Bearer "}, 401},
		"a wrong token":                     {"GET", "v1/status", "", []string{"Authorization: Bearer covey_AAAA"}, 401},
		"a token as a password":             {"GET", "v1/status", "", []string{strings.Replace(good, "Bearer", "Basic", 1)}, 401},
		"a token as a cookie":               {"GET", "v1/status", "", []string{"Cookie: token=" + strings.TrimPrefix(good, "Authorization: Bearer ")}, 401},
		"a token in the query":              {"GET", "v1/status?token=" + strings.TrimPrefix(good, "Authorization: Bearer "), "", nil, 401},
		"a page from elsewhere":             {"POST", "v1/down", "{}", []string{good, typed, "Origin: https://evil.example"}, 403},
		"a page of another port":            {"POST", "v1/down", "{}", []string{good, typed, "Origin: http://127.0.0.1:9999", "Sec-Fetch-Site: same-site"}, 403},
		"a page that says only its port":    {"POST", "v1/down", "{}", []string{good, typed, "Origin: http://127.0.0.1:9999"}, 403},
		"a page without an origin":          {"POST", "v1/down", "{}", []string{good, typed, "Origin: null"}, 403},
		"a page from elsewhere that asks":   {"GET", "v1/status", "", []string{good, "Origin: https://evil.example"}, 403},
		"one of another port that asks":     {"GET", "v1/status", "", []string{good, "Sec-Fetch-Site: same-site"}, 403},
		"one without an origin that asks":   {"GET", "v1/jobs", "", []string{good, "Origin: null"}, 403},
		"one from elsewhere that looks":     {"HEAD", "v1/status", "", []string{good, "Sec-Fetch-Site: cross-site"}, 403},
		"a link from elsewhere to the page": {"GET", "", "", []string{"Sec-Fetch-Site: cross-site"}, 200},
		"the page itself asks":              {"GET", "v1/nothing", "", []string{good, "Sec-Fetch-Site: same-origin"}, 404},
		"a login from elsewhere":            {"POST", "login", `{"code":"x"}`, []string{typed, "Sec-Fetch-Site: cross-site"}, 403},
		"a form":                            {"POST", "v1/down", "{}", []string{good, "Content-Type: application/x-www-form-urlencoded"}, 415},
		"text":                              {"POST", "v1/down", "{}", []string{good, "Content-Type: text/plain"}, 415},
		"no type":                           {"POST", "v1/down", "{}", []string{good}, 415},
		"a preflight":                       {"OPTIONS", "v1/down", "", []string{"Origin: https://evil.example", "Access-Control-Request-Method: POST"}, 401},
		"a way around by dots":              {"GET", "index.html/../v1/status", "", nil, 401},
		"a way around by escapes":           {"GET", "index.html/%2e%2e/v1/status", "", nil, 401},
		"a way around by slashes":           {"GET", "/v1/status", "", nil, 401},
		"a file that is none of the page's": {"GET", "../web.go", "", nil, 401},
		"the page's folder":                 {"GET", "./", "", nil, 401},
		"a code nobody made":                {"POST", "login", `{"code":"x"}`, []string{typed}, 401},
		"an empty code":                     {"POST", "login", `{}`, []string{typed}, 401},
		"a code in the query":               {"GET", "login?code=x", "", nil, 400},
	} {
		got, body, head := raw(t, host, c.method, "/"+c.path, c.body, c.headers)
		if got != c.want {
			t.Errorf("%s: %d %s, want %d", what, got, body, c.want)
		}
		if head.Get("Access-Control-Allow-Origin") != "" || head.Get("Set-Cookie") != "" || !strings.HasPrefix(head.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: headers %v", what, head)
		}
	}
	if len(p.said) > 0 {
		t.Errorf("done: %v", p.said)
	}
}

// raw writes a request byte by byte: http.Client would mend it.
func raw(t *testing.T, host, method, path, body string, headers []string) (int, string, http.Header) {
	t.Helper()
	c, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	named := host
	text := ""
	for _, h := range headers {
		if v, ok := strings.CutPrefix(h, "Host: "); ok {
			named = v
			continue
		}
		text += h + "\r\n"
	}
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n%s", method, path, named, text, len(body), body)
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatal(method, path, err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), resp.Header
}

func TestABodyWithoutATokenIsNotWaitedFor(t *testing.T) {
	_, url := serve(t, door.Listen{Addr: "127.0.0.1:0"})
	c, err := net.Dial("tcp", strings.Trim(strings.TrimPrefix(url, "http://"), "/"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/jobs HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{", c.RemoteAddr())
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != 401 {
		t.Fatal(resp, err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	if _, err := r.ReadByte(); err == nil { // a hang on is ended by the test's own limit
		t.Error("it was not hung up on")
	}
}

// silent opens connections that say nothing.
func silent(t *testing.T, host string, n int) (held []net.Conn) {
	t.Helper()
	for range n {
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		held = append(held, c)
	}
	return held
}

func TestSilentConnectionsWithoutATokenShutNeitherThePageNorTheAPI(t *testing.T) {
	p, url := serve(t, door.Listen{Addr: "127.0.0.1:0"})
	host, token := strings.Trim(strings.TrimPrefix(url, "http://"), "/"), p.token(t, api.ReadScope)
	var first net.Conn
	for range 8 {
		held := silent(t, host, 70)
		if first == nil {
			first = held[0]
		}
		if status, body, _ := raw(t, host, "GET", "/v1/status", "", []string{"Authorization: Bearer " + token}); status != 200 {
			t.Fatal(status, body)
		}
		if status, _, _ := raw(t, host, "GET", "/", "", nil); status != 200 {
			t.Fatal("the page:", status)
		}
	}
	if n, err := first.Read(make([]byte, 1)); err == nil { // a hang is ended by the test's own limit
		t.Errorf("the oldest was served: %d", n)
	}
}

func TestAConnectionThatHasShownATokenKeepsItsPlace(t *testing.T) {
	cert, key := certificate(t, "localhost")
	for _, l := range []door.Listen{{Addr: "127.0.0.1:0"}, {Addr: "127.0.0.1:0", Cert: cert, Key: key}} {
		p, url := serve(t, l)
		url = strings.Replace(url, "127.0.0.1", "localhost", 1)
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
		t.Cleanup(tr.CloseIdleConnections)
		r, err := http.NewRequestWithContext(t.Context(), "GET", url+"v1/watch", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+p.token(t, api.ReadScope))
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		lines := bufio.NewReader(resp.Body)
		if l, err := lines.ReadString('\n'); err != nil || !strings.Contains(l, "synced") {
			t.Fatal(l, err)
		}
		_, host, _ := strings.Cut(strings.Trim(url, "/"), "://")
		last := silent(t, host, 130)
		if _, err := last[0].Read(make([]byte, 1)); err == nil { // from here on all of them were let in
			t.Fatal("the oldest was served")
		}
		p.news <- api.Event{Kind: "later"}
		if l, err := lines.ReadString('\n'); err != nil || !strings.Contains(l, "later") {
			t.Errorf("%s: %q %v", resp.Proto, l, err)
		}
	}
}

func TestATokenThatHoldsManyConnectionsIsRefusedMoreAndOthersAreNot(t *testing.T) {
	p, url := serve(t, door.Listen{Addr: "127.0.0.1:0"})
	host := strings.Trim(strings.TrimPrefix(url, "http://"), "/")
	one, other := p.token(t, api.ReadScope), p.token(t, api.ReadScope)
	held := silent(t, host, 64)
	for _, c := range held {
		fmt.Fprintf(c, "GET /v1/status HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", host, one)
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
	}
	if status, body, _ := raw(t, host, "GET", "/v1/status", "", []string{"Authorization: Bearer " + one}); status != 429 || !strings.Contains(body, "64 connections") {
		t.Errorf("the 65th: %d %s", status, body)
	}
	if status, body, _ := raw(t, host, "GET", "/v1/status", "", []string{"Authorization: Bearer " + other}); status != 200 {
		t.Errorf("another token: %d %s", status, body)
	}
	for _, c := range held {
		c.Close()
	}
	for { // the test's own limit ends this
		if status, _, _ := raw(t, host, "GET", "/v1/status", "", []string{"Authorization: Bearer " + one}); status == 200 {
			break
		}
	}
}

// pipes is a listener of connections that are given to it.
type pipes struct {
	net.Listener
	next chan net.Conn
}

func (p pipes) Accept() (net.Conn, error) { return <-p.next, nil }

// from is a connection of an address.
type from struct {
	net.Conn
	addr net.TCPAddr
}

func (f from) RemoteAddr() net.Addr { return &f.addr }

func TestAConnectionWithoutATokenIsOpenBrieflyAndTheAddressWithTheMostMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := pipes{next: make(chan net.Conn, 1)}
		l := door.Limited(in)
		open := func(addr string) net.Conn {
			far, near := net.Pipe()
			in.next <- from{near, net.TCPAddr{IP: net.ParseIP(addr), Port: 1}}
			if _, err := l.Accept(); err != nil {
				t.Fatal(err)
			}
			return far
		}
		closed := func(c net.Conn) bool {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			return errors.Is(err, io.EOF)
		}
		honest := open("192.0.2.1")
		var crowd []net.Conn
		for i := range 70 {
			crowd = append(crowd, open(fmt.Sprintf("2001:db8::%x", i+1)))
		}
		if closed(honest) {
			t.Error("the only connection of its address made room")
		}
		for i, c := range crowd {
			if got, want := closed(c), i < 7; got != want {
				t.Errorf("connection %d: closed %v, want %v", i, got, want)
			}
		}
		time.Sleep(31 * time.Second)
		if !closed(honest) || !closed(crowd[69]) {
			t.Error("open for longer than 30 s without a token")
		}
	})
}

func TestAStreamOverHTTP2ThatItsReaderLeavesDoesNotEndThePeer(t *testing.T) {
	cert, key := certificate(t, "localhost")
	p, url := serve(t, door.Listen{Addr: "127.0.0.1:0", Cert: cert, Key: key})
	token := p.token(t, api.ReadScope)
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	for range 100 {
		r, err := http.NewRequestWithContext(t.Context(), "GET", strings.Replace(url, "127.0.0.1", "localhost", 1)+"v1/watch", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := tr.RoundTrip(r)
		if err != nil || resp.ProtoMajor != 2 {
			t.Fatal(resp, err)
		}
		if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
}

func TestALinkLetsOneBrowserInOnceAndTheDoorIsShutWhenItsTokenEnds(t *testing.T) {
	p, _ := serve(t, door.Listen{})
	if a, err := p.AccessTokens(t.Context()); err != nil || len(a.Open) > 0 {
		t.Fatalf("open before anybody asked: %v %v", a, err)
	}
	l, err := p.OpenWeb(t.Context(), api.TokenRequest{Scope: api.ReadScope, Expires: 60})
	if err != nil || !strings.HasPrefix(l.URL, "http://127.0.0.1:") {
		t.Fatal(l, err)
	}
	code := fmt.Sprintf(`{"code":%q}`, l.Code)
	status, body, _ := ask(t, "POST", l.URL+"login", code, "Content-Type: application/json")
	var a api.AccessToken
	if err := json.Unmarshal([]byte(body), &a); status != 200 || err != nil || a.Scope != api.ReadScope || !a.Web {
		t.Fatal(status, body)
	}
	if status, body, _ := ask(t, "POST", l.URL+"login", code, "Content-Type: application/json"); status != 401 || !strings.Contains(body, "used already") {
		t.Errorf("a second time: %d %s", status, body)
	}
	bearer := "Authorization: Bearer " + a.Secret
	if status, body, _ := ask(t, "GET", l.URL+"v1/status", "", bearer); status != 200 || !strings.Contains(body, `"one"`) {
		t.Errorf("%d %s", status, body)
	}
	second, err := p.OpenWeb(t.Context(), api.TokenRequest{Scope: api.ReadScope, Expires: 60})
	if err != nil || second.URL != l.URL {
		t.Fatal(second, err)
	}
	if status, body, _ := ask(t, "POST", l.URL+"logout", "", bearer, "Content-Type: application/json"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if status, _, _ := ask(t, "GET", l.URL+"v1/status", "", bearer); status != 401 {
		t.Errorf("after the logout: %d", status)
	}
	if status, body, _ := ask(t, "POST", l.URL+"login", fmt.Sprintf(`{"code":%q}`, second.Code), "Content-Type: application/json"); status != 200 || json.Unmarshal([]byte(body), &a) != nil {
		t.Fatal(status, body)
	}
	if err := p.RevokeToken(t.Context(), a.Name); err != nil {
		t.Fatal(err)
	}
	for { // the test's own limit ends this
		if a, _ := p.AccessTokens(t.Context()); len(a.Open) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestWhereTheDoorIsOpenAnywayThePageIsThere(t *testing.T) {
	p, url := serve(t, door.Listen{Addr: "127.0.0.1:0"})
	if l, err := p.OpenWeb(t.Context(), api.TokenRequest{Scope: api.ReadScope, Expires: 60}); err != nil || l.URL != url {
		t.Errorf("%v %v, the door is at %s", l, err, url)
	}
	if a, err := p.AccessTokens(t.Context()); err != nil || len(a.Open) != 1 {
		t.Errorf("%v %v", a, err)
	}
}

func TestWhatATokenLetInEndsWhenItIsRevokedAndWhatOthersDoGoesOn(t *testing.T) {
	p, url := serve(t, door.Listen{Addr: "127.0.0.1:0"})
	one, err := p.CreateToken(t.Context(), api.TokenRequest{Name: "one", Scope: api.SubmitScope, Expires: 60})
	if err != nil {
		t.Fatal(err)
	}
	dial := func(request, secret, more string) *bufio.Reader {
		host := strings.Trim(strings.TrimPrefix(url, "http://"), "/")
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s\r\n", request, host, secret, more)
		return bufio.NewReader(c)
	}
	watch := func(secret string) *bufio.Reader {
		resp, err := http.ReadResponse(dial("GET /v1/watch", secret, ""), nil)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(resp.Body)
		if l, err := lines.ReadString('\n'); err != nil || !strings.Contains(l, "synced") {
			t.Fatal(l, err)
		}
		return lines
	}
	ends, goesOn := watch(one.Secret), watch(p.token(t, api.ReadScope))
	put := dial("PUT /v1/files", one.Secret, "Content-Type: application/octet-stream\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n")
	if l, err := put.ReadString('\n'); err != nil || !strings.Contains(l, "100") { // it is being read
		t.Fatal(l, err)
	}
	if err := p.RevokeToken(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	last, _ := io.ReadAll(ends) // one that does not end is ended by the test's own limit
	if !strings.Contains(string(last), "the token that was shown has ended") {
		t.Errorf("the stream says %s", last)
	}
	if _, err := io.ReadAll(put); err != nil {
		t.Errorf("what was sent: %v", err)
	}
	if err := p.RevokeToken(t.Context(), "one"); err == nil {
		t.Error("revoked twice")
	}
	p.news <- api.Event{Kind: "more"}
	if l, err := goesOn.ReadString('\n'); err != nil || !strings.Contains(l, "more") {
		t.Errorf("the stream of another token says %s, %v", l, err)
	}
}

// line is a response whose lines are heard as they are written.
type line struct {
	*httptest.ResponseRecorder
	heard chan string
}

func (l *line) Write(b []byte) (int, error) {
	l.heard <- string(b)
	return len(b), nil
}

func TestWhatATokenLetInEndsWhenItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		var err error
		p.Door, err = door.New(door.Config{Path: filepath.Join(t.TempDir(), "tokens"), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		p.SetAPI(api.NewHandler(p, nil))
		secret := p.token(t, api.ReadScope) // good for a minute
		began := time.Now()
		time.Sleep(20 * time.Second)
		r := httptest.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:1/v1/watch", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		w := &line{httptest.NewRecorder(), make(chan string, 2)}
		p.Handler(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}).ServeHTTP(w, r)
		if open := time.Since(began); open < 59*time.Second || open > time.Minute {
			t.Errorf("it was open until %s after the token was made", open)
		}
		if first, last := <-w.heard, <-w.heard; !strings.Contains(first, "synced") || !strings.Contains(last, "has expired") {
			t.Errorf("it says %s%s", first, last)
		}
	})
}

func TestTokensAreKeptAsHashesAndEnd(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	path := filepath.Join(t.TempDir(), "tokens")
	open := func() *door.Door {
		d, err := door.New(door.Config{Path: path, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := open()
	a, err := d.CreateToken(t.Context(), api.TokenRequest{Name: "grafana", Scope: api.ReadScope, Expires: 3600})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(b), strings.TrimPrefix(a.Secret, "covey_")) {
		t.Fatalf("%s %v", b, err)
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", st.Mode())
	}
	var rows []map[string]any
	if err := json.Unmarshal(b, &rows); err != nil || len(rows) != 1 {
		t.Fatal(err)
	}
	rows[0]["id"], rows[0]["sha256"] = "ID", "HASH"
	plain, _ := json.MarshalIndent(rows, "", " ")
	if err := golden.Check("testdata/tokens.json", string(plain)+"\n"); err != nil {
		t.Error(err)
	}
	for _, r := range []api.TokenRequest{{Scope: "all", Expires: 1}, {Scope: api.ReadScope}, {Scope: api.ReadScope, Expires: 1e12}, {Scope: api.ReadScope, Expires: 1, Name: "a b"}, {Scope: api.ReadScope, Expires: 1, Name: "grafana"}} {
		if _, err := d.CreateToken(t.Context(), r); err == nil {
			t.Errorf("made %+v", r)
		}
	}
	d = open()
	if l, _ := d.AccessTokens(t.Context()); len(l.Tokens) != 1 || l.Tokens[0].Name != "grafana" || l.Tokens[0].Secret != "" {
		t.Errorf("after a restart: %+v", l)
	}
	now = now.Add(time.Hour)
	if l, _ := d.AccessTokens(t.Context()); len(l.Tokens) != 0 {
		t.Errorf("after its end: %+v", l)
	}
	if err := d.RevokeToken(t.Context(), "grafana"); err == nil || api.AsError(err).Code != api.NotFound {
		t.Errorf("%v", err)
	}
}

func TestADamagedFileLetsNobodyInIsNotWrittenOverAndDoesNotKeepThePeerFromStarting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := door.New(door.Config{Path: path, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	_, listed := d.AccessTokens(t.Context())
	_, created := d.CreateToken(t.Context(), api.TokenRequest{Scope: api.ReadScope, Expires: 60})
	_, opened := d.OpenWeb(t.Context(), api.TokenRequest{Scope: api.ReadScope, Expires: 60})
	for what, err := range map[string]error{"open": opened, "list": listed, "create": created, "revoke": d.RevokeToken(t.Context(), "any")} {
		if e := api.AsError(err); e == nil || e.Code != api.Failed || !strings.Contains(e.Message, "is damaged") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "[{" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

// certificate writes one for some names.
func certificate(t *testing.T, names ...string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	kb, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: kb}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestACertificateThatIsReplacedIsShownWithoutARestart(t *testing.T) {
	cert, key := certificate(t, "old.example")
	p, url := serve(t, door.Listen{Addr: "127.0.0.1:0", Cert: cert, Key: key})
	addr := strings.Trim(strings.TrimPrefix(url, "https://"), "/")
	_, port, _ := net.SplitHostPort(addr)
	bearer := "Authorization: Bearer " + p.token(t, api.ReadScope)
	shows := func(name, other string) {
		t.Helper()
		c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if names := c.ConnectionState().PeerCertificates[0].DNSNames; !slices.Equal(names, []string{name}) {
			t.Errorf("it shows %q, not %s", names, name)
		}
		for host, want := range map[string]int{name: 200, other: 421} {
			if got, body, _ := ask(t, "GET", url+"v1/status", "", bearer, "Host: "+host+":"+port); got != want {
				t.Errorf("as %s: %d %s, want %d", host, got, body, want)
			}
		}
	}
	replace := func(file, by string, minutes int) {
		t.Helper()
		b, err := os.ReadFile(by)
		if err == nil {
			err = os.WriteFile(file, b, 0o600)
		}
		if at := time.Now().Add(time.Duration(minutes) * time.Minute); err == nil {
			err = os.Chtimes(file, at, at) // not within a tick of the disk's clock
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	shows("old.example", "new.example")
	newCert, newKey := certificate(t, "new.example")
	replace(cert, newCert, 1)
	shows("old.example", "new.example") // its key has not come yet
	replace(key, newKey, 2)
	shows("new.example", "old.example")
}

func TestBeyondThisMachineThereIsTLSOrNothing(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "host.example:26840"} {
		_, err := door.New(door.Config{Path: filepath.Join(t.TempDir(), "tokens"), Listen: door.Listen{Addr: addr}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), "--api-cert") {
			t.Errorf("%s: %v", addr, err)
		}
	}
	cert, key := certificate(t, "covey.example")
	p, url := serve(t, door.Listen{Addr: "127.0.0.1:0", Cert: cert, Key: key})
	if !strings.HasPrefix(url, "https://") {
		t.Fatal(url)
	}
	_, port, _ := net.SplitHostPort(strings.Trim(strings.TrimPrefix(url, "https://"), "/"))
	bearer := "Authorization: Bearer " + p.token(t, api.ReadScope)
	for host, want := range map[string]int{"covey.example:" + port: 200, "127.0.0.1:" + port: 200, "covey.example": 421, "other.example:" + port: 421} {
		if got, body, _ := ask(t, "GET", url+"v1/status", "", bearer, "Host: "+host); got != want {
			t.Errorf("as %s: %d %s, want %d", host, got, body, want)
		}
	}
}
