// Receives hand-offs: verifies the exact bytes, and stores each change once. Go 1.21 or later: go run receiver.go
// SECRET has the keys (whsec_…, one per line). PORT and DATABASE are optional. DATABASE is a file of lines, because the
// standard library has no database: the lines of a batch are written and synced at once.
package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// json.Number keeps all digits of an amount, also beyond 2^53.
type record struct {
	Amount json.Number `json:"amount"`
}

type change struct {
	Seq    json.Number `json:"seq"`
	ID     string      `json:"id"`
	Change string      `json:"change"`
	After  *record     `json:"after"`
}

type batch struct {
	Generation string   `json:"generation"`
	List       string   `json:"list"`
	Changes    []change `json:"changes"`
}

type line struct {
	Generation string      `json:"generation"`
	Seq        json.Number `json:"seq"`
	List       string      `json:"list"`
	ID         string      `json:"id"`
	Change     string      `json:"change"`
	Amount     json.Number `json:"amount,omitempty"`
}

// A batch has at most max_bytes, unless one change is larger.
const mostBytes = 16_000_000

type store struct {
	sync.Mutex
	file *os.File
	size int64
	seen map[string]bool
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func setting(name, usual string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return usual
}

// open reads the lines that are whole, and removes what a kill has left of another one.
func open(name string) *store {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	check(err)
	text, err := io.ReadAll(file)
	check(err)
	s := &store{file: file, size: int64(bytes.LastIndexByte(text, '\n') + 1), seen: map[string]bool{}}
	for _, one := range bytes.Split(bytes.TrimSpace(text[:s.size]), []byte("\n")) {
		var l line
		if len(one) > 0 {
			check(json.Unmarshal(one, &l))
			s.seen[l.Generation+"/"+l.Seq.String()] = true
		}
	}
	check(file.Truncate(s.size))
	return s
}

// apply stores the changes that are no repeats, all or none.
func (s *store) apply(body []byte) error {
	var b batch
	if err := json.Unmarshal(body, &b); err != nil {
		return err
	}
	s.Lock()
	defer s.Unlock()
	var text bytes.Buffer
	var fresh []string
	for _, c := range b.Changes {
		key := b.Generation + "/" + c.Seq.String()
		if s.seen[key] {
			continue
		}
		l := line{Generation: b.Generation, Seq: c.Seq, List: b.List, ID: c.ID, Change: c.Change}
		if c.After != nil {
			l.Amount = c.After.Amount
		}
		one, err := json.Marshal(l)
		if err != nil {
			return err
		}
		text.Write(append(one, '\n'))
		fresh = append(fresh, key)
		// A change that is no repeat: do what it means to you. After "erased", erase the record.
	}
	_, err := s.file.WriteAt(text.Bytes(), s.size)
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		_ = s.file.Truncate(s.size)
		return err
	}
	s.size += int64(text.Len())
	for _, key := range fresh {
		s.seen[key] = true
	}
	return nil
}

func isSigned(keys [][]byte, headers http.Header, body []byte) bool {
	id, at := headers.Get("webhook-id"), headers.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if age := time.Now().Unix() - seconds; err != nil || age > 300 || age < -300 {
		return false
	}
	signed := false
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.", id, at)
		mac.Write(body)
		own := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		for _, one := range strings.Split(headers.Get("webhook-signature"), " ") {
			signed = hmac.Equal([]byte(one), []byte(own)) || signed
		}
	}
	return signed
}

func main() {
	var keys [][]byte
	for _, text := range strings.Fields(os.Getenv("SECRET")) {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
		if err != nil || !strings.HasPrefix(text, "whsec_") {
			log.Fatal("SECRET needs keys whsec_…")
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		log.Fatal("SECRET needs keys whsec_…")
	}
	s := open(setting("DATABASE", "received.ndjson"))
	http.HandleFunc("/", func(response http.ResponseWriter, request *http.Request) {
		if request.ContentLength < 0 || request.ContentLength > mostBytes {
			response.Header().Set("Connection", "close") // else the server would read some of it first
			response.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		body, err := io.ReadAll(request.Body)
		switch {
		case err != nil || !isSigned(keys, request.Header, body):
			response.WriteHeader(http.StatusUnauthorized)
		case s.apply(body) != nil:
			response.WriteHeader(http.StatusInternalServerError) // the sender repeats it
		default:
			response.WriteHeader(http.StatusNoContent) // only after the lines are on the disk
		}
	})
	server := http.Server{Addr: "127.0.0.1:" + setting("PORT", "8790"), ReadTimeout: 30 * time.Second}
	log.Fatal(server.ListenAndServe())
}
