// A client that keeps its connections while Weir replaces itself: `keeper HOST:PORT`. It says "streaming" once requests
// are sent, and in the end in JSON what became of those behind them.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

var waits = []time.Duration{0, 20, 450, 550, 3000}

func main() {
	answers := make(chan []any)
	for _, wait := range waits {
		go func() { answers <- keep(wait) }()
	}
	fmt.Println("streaming")
	all := [][]any{}
	for range waits {
		all = append(all, <-answers)
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"answers": all})
}

func keep(wait time.Duration) []any {
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	status, body := post(client, "/pieces")
	time.Sleep(wait * time.Millisecond)
	behind, echo := post(client, "/echo")
	return []any{wait, status, len(body), behind, echo}
}

// An error has the status 0. Bodies without a length: the client can't repeat the request by itself.
func post(client *http.Client, path string) (int, string) {
	body := io.MultiReader(strings.NewReader("hello"))
	answer, err := client.Post("http://"+os.Args[1]+path, "text/plain", body)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}
