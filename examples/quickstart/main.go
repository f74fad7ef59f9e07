// Quickstart stores a message and shows the conversation so far.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/sqlitestore"
)

func main() {
	ctx := context.Background()
	store, err := sqlitestore.Open(ctx, "quickstart.db", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Append(ctx, "ada", []session.Message{session.UserText("Hello!")}, nil); err != nil {
		log.Fatal(err)
	}
	messages, err := store.Load(ctx, "ada")
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range messages {
		fmt.Println(m)
	}
}
