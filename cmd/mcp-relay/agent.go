package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// agent is the MCP client that try plays.
type agent struct{ session *mcp.ClientSession }

// connect starts the server as a client's host does, and initializes.
func connect(ctx context.Context, server *exec.Cmd) (*agent, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "mcp-relay-try", Version: version()}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: server}, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot speak MCP to the server: %w", err)
	}
	return &agent{session}, nil
}

// result calls a tool; an error result is an error with the tool's own words.
func (a *agent) result(ctx context.Context, tool string, args any) (text string, image *mcp.ImageContent, err error) {
	res, err := a.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", nil, err
	}
	for _, c := range res.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			text += c.Text
		case *mcp.ImageContent:
			image = c
		}
	}
	if res.IsError {
		return "", nil, errors.New(text)
	}
	return text, image, nil
}

func (a *agent) call(ctx context.Context, tool string, args any) (string, error) {
	text, _, err := a.result(ctx, tool, args)
	return text, err
}

// run calls relay_script and splits the identity line from the rest.
func (a *agent) run(ctx context.Context, args any) (rest, imageID string, err error) {
	text, _, err := a.result(ctx, "relay_script", args)
	if err != nil {
		return "", "", err
	}
	line, rest, _ := strings.Cut(text, "\n")
	var identity struct {
		ImageDelivery struct {
			Image struct {
				ImageID string `json:"imageId"`
			} `json:"image"`
		} `json:"imageDelivery"`
	}
	if err := decode(line, &identity); err != nil {
		return "", "", err
	}
	return rest, identity.ImageDelivery.Image.ImageID, nil
}

// image fetches a saved image by reference.
func (a *agent) image(ctx context.Context, id string) (size int, mime string, err error) {
	_, image, err := a.result(ctx, "relay_image", map[string]any{"target": map[string]any{"source": "reference", "imageId": id}})
	if err != nil {
		return 0, "", err
	}
	if image == nil {
		return 0, "", errors.New("the answer holds no image")
	}
	return len(image.Data), image.MIMEType, nil
}

func decode(text string, v any) error {
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return fmt.Errorf("cannot read an answer: %w", err)
	}
	return nil
}
