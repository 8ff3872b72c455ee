package html

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// browser is a headless Chromium, driven by its DevTools protocol over two pipes: no port, no other program.
type browser struct {
	t      testing.TB
	cmd    *exec.Cmd
	to     io.WriteCloser
	mu     sync.Mutex
	id     int
	wait   map[int]chan reply
	events chan event
}

type reply struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
	event
}

type event struct {
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Session string          `json:"sessionId"`
}

// startBrowser skips the test where there is no Chromium.
func startBrowser(t testing.TB) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("Chromium is not installed")
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,1000", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--force-prefers-reduced-motion",
		"--user-data-dir="+dir, "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{inR, outW} // 3 and 4
	cmd.Env = append(os.Environ(), "HOME="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inR.Close()
	outW.Close()
	b := &browser{t: t, cmd: cmd, to: inW, wait: map[int]chan reply{}, events: make(chan event, 4096)}
	go b.read(outR)
	t.Cleanup(func() {
		b.call("", "Browser.close", nil, nil)
		done := make(chan struct{})
		go func() { _ = cmd.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-done
		}
		inW.Close()
		outR.Close()
	})
	return b
}

func (b *browser) read(from io.Reader) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			for id, c := range b.wait {
				close(c)
				delete(b.wait, id)
			}
			b.mu.Unlock()
			return
		}
		var r reply
		if json.Unmarshal(text[:len(text)-1], &r) != nil {
			continue
		}
		if r.ID == 0 {
			select {
			case b.events <- r.event:
			default:
			}
			continue
		}
		b.mu.Lock()
		c := b.wait[r.ID]
		delete(b.wait, r.ID)
		b.mu.Unlock()
		if c != nil {
			c <- r
		}
	}
}

// call sends a command and waits for what comes of it.
func (b *browser) call(session, method string, params, result any) {
	b.t.Helper()
	b.mu.Lock()
	b.id++
	id, c := b.id, make(chan reply, 1)
	b.wait[id] = c
	b.mu.Unlock()
	message := map[string]any{"id": id, "method": method}
	if params != nil {
		message["params"] = params
	}
	if session != "" {
		message["sessionId"] = session
	}
	text, err := json.Marshal(message)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	select {
	case r, ok := <-c:
		switch {
		case !ok:
			if method != "Browser.close" {
				b.t.Fatalf("%s: the browser went away", method)
			}
		case r.Error != nil:
			b.t.Fatalf("%s: %s", method, r.Error.Message)
		case result != nil:
			if err := json.Unmarshal(r.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
	case <-time.After(60 * time.Second):
		b.t.Fatalf("%s: no answer", method)
	}
}

// tab is a page in the browser.
type tab struct {
	*browser
	session string
}

// open shows a file in a new tab. What goes wrong in it, and whatever it asks the network for, fails the test.
func (b *browser) open(file string, setup ...func(*tab)) *tab {
	b.t.Helper()
	var target struct{ TargetID string }
	b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p := &tab{b, attached.SessionID}
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		b.call(p.session, domain+".enable", nil, nil)
	}
	for _, f := range setup {
		f(p)
	}
	p.do("Page.navigate", map[string]any{"url": "file://" + file}, nil)
	p.until("Page.loadEventFired")
	return p
}

func (p *tab) do(method string, params, result any) {
	p.t.Helper()
	p.call(p.session, method, params, result)
}

// until waits for an event, and looks at those before it.
func (p *tab) until(method string) {
	p.t.Helper()
	limit := time.After(60 * time.Second)
	for {
		select {
		case e := <-p.events:
			p.look(e)
			if e.Method == method && e.Session == p.session {
				return
			}
		case <-limit:
			p.t.Fatalf("%s did not come", method)
		}
	}
}

// quiet looks at all events so far.
func (p *tab) quiet() {
	p.t.Helper()
	for {
		select {
		case e := <-p.events:
			p.look(e)
		default:
			return
		}
	}
}

func (p *tab) look(e event) {
	p.t.Helper()
	switch e.Method {
	case "Runtime.exceptionThrown", "Log.entryAdded":
		p.t.Errorf("the page complains: %s", e.Params)
	case "Runtime.consoleAPICalled":
		p.t.Errorf("the page writes on the console: %s", e.Params)
	case "Network.requestWillBeSent":
		var r struct{ Request struct{ URL string } }
		_ = json.Unmarshal(e.Params, &r)
		if !strings.HasPrefix(r.Request.URL, "file:") && !strings.HasPrefix(r.Request.URL, "data:") && r.Request.URL != "about:blank" {
			p.t.Errorf("the page asks for %s", r.Request.URL)
		}
	}
}

// eval runs a script in the page and returns its value as JSON gives it.
func eval[T any](p *tab, script string) (v T) {
	p.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Exception struct{ Description string }
		}
	}
	p.do("Runtime.evaluate", map[string]any{"expression": "(() => {" + script + "})()", "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		p.t.Fatalf("%s: %s", script, r.ExceptionDetails.Exception.Description)
	}
	if len(r.Result.Value) > 0 {
		if err := json.Unmarshal(r.Result.Value, &v); err != nil {
			p.t.Fatalf("%s: %v", script, err)
		}
	}
	return v
}

// box is where an element is on the screen, once it has been scrolled there.
type box struct{ X, Y, W, H float64 }

func (p *tab) box(selector string) box {
	p.t.Helper()
	return eval[box](p, fmt.Sprintf(`const e = document.querySelector(%q); e.scrollIntoView({block: "center"}); const r = e.getBoundingClientRect(); return {X: r.x, Y: r.y, W: r.width, H: r.height}`, selector))
}

func (p *tab) mouse(kind string, x, y float64, button string, clicks int) {
	p.t.Helper()
	p.do("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": button, "buttons": map[string]int{"left": 1}[button], "clickCount": clicks}, nil)
}

func (p *tab) click(selector string) {
	p.t.Helper()
	b := p.box(selector)
	p.mouse("mousePressed", b.X+b.W/2, b.Y+b.H/2, "left", 1)
	p.mouse("mouseReleased", b.X+b.W/2, b.Y+b.H/2, "left", 1)
}

// key presses a key by its name, with text where it writes something.
func (p *tab) key(name, text string) {
	p.t.Helper()
	p.do("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": name, "text": text}, nil)
	p.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": name}, nil)
}

func (p *tab) scheme(value string) {
	p.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": value}}}, nil)
}

// picture writes what the page looks like into the folder ROCESCOPE_PICTURES, if that is set: for people to look at.
func (p *tab) picture(name string, whole bool) {
	dir := os.Getenv("ROCESCOPE_PICTURES")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	p.do("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": whole}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
