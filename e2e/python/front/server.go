// An app on Go's own server: `server unix:PATH`, `server port:PORT`, `server fd:NUMBER`.
package main

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	listener, err := listen(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/", func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprint(answer, os.Getpid()) })
	http.HandleFunc("/echo", echo)
	http.HandleFunc("/parts", parts)
	http.HandleFunc("/events", events)
	http.HandleFunc("/pieces", pieces)
	http.HandleFunc("/cable", cable)
	server := &http.Server{}
	asked := make(chan os.Signal, 1)
	ended := make(chan struct{})
	signal.Notify(asked, syscall.SIGTERM)
	go func() {
		<-asked
		server.Shutdown(context.Background())
		close(ended)
	}()
	if err := server.Serve(listener); err != http.ErrServerClosed {
		log.Fatal(err)
	}
	<-ended
}

func listen(where string) (net.Listener, error) {
	kind, rest, _ := strings.Cut(where, ":")
	switch kind {
	case "unix":
		return net.Listen("unix", rest)
	case "port":
		return net.Listen("tcp", "127.0.0.1:"+rest)
	}
	number, err := strconv.Atoi(rest)
	if err != nil {
		return nil, err
	}
	return net.FileListener(os.NewFile(uintptr(number), "inherited"))
}

func echo(answer http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	answer.Write(body)
}

func parts(answer http.ResponseWriter, _ *http.Request) {
	for _, letter := range []string{"a", "b", "c"} {
		io.WriteString(answer, strings.Repeat(letter, 40_000))
		answer.(http.Flusher).Flush()
	}
}

func pieces(answer http.ResponseWriter, request *http.Request) {
	io.Copy(io.Discard, request.Body)
	for number := 0; number < 10; number++ {
		io.WriteString(answer, "piece\n")
		answer.(http.Flusher).Flush()
		time.Sleep(200 * time.Millisecond)
	}
}

func events(answer http.ResponseWriter, request *http.Request) {
	answer.Header().Set("Content-Type", "text/event-stream")
	for number := 0; request.Context().Err() == nil; number++ {
		fmt.Fprintf(answer, "data: %d\n\n", number)
		answer.(http.Flusher).Flush()
		time.Sleep(10 * time.Millisecond)
	}
}

// A WebSocket that echoes in capitals. Go's library has none; this knows just what the test sends:
// masked text in one frame, and the end.
func cable(answer http.ResponseWriter, request *http.Request) {
	connection, buffered, err := answer.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer connection.Close()
	digest := sha1.Sum([]byte(request.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(connection, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(digest[:]))
	for {
		kind, payload, err := readFrame(buffered)
		if err != nil {
			return
		}
		connection.Write(frame(kind, []byte(strings.ToUpper(string(payload)))))
		if kind == closing {
			return
		}
	}
}

const closing = 8

func readFrame(from io.Reader) (byte, []byte, error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(from, head); err != nil {
		return 0, nil, err
	}
	length := uint64(head[1] & 0x7f)
	if more := map[uint64]int{126: 2, 127: 8}[length]; more > 0 {
		long := make([]byte, 8)
		if _, err := io.ReadFull(from, long[8-more:]); err != nil {
			return 0, nil, err
		}
		length = binary.BigEndian.Uint64(long)
	}
	rest := make([]byte, 4+length)
	_, err := io.ReadFull(from, rest)
	for at := range rest[4:] {
		rest[4+at] ^= rest[at%4]
	}
	return head[0] & 0x0f, rest[4:], err
}

func frame(kind byte, payload []byte) []byte {
	if len(payload) < 126 {
		return append([]byte{0x80 | kind, byte(len(payload))}, payload...)
	}
	head := append([]byte{0x80 | kind, 127}, make([]byte, 8)...)
	binary.BigEndian.PutUint64(head[2:], uint64(len(payload)))
	return append(head, payload...)
}
