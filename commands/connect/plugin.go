package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/pattern"
)

// addPlugin returns a host's plugin with the command that it runs.
func (c *connection) addPlugin(h *agenthost.Host, of *agenthost.File, before []byte) ([]byte, error) {
	if _, err := dropPlugin(before, nil); err != nil {
		return nil, err
	}
	event := "stream"
	if of.Idle {
		event = "wake"
	}
	words := c.hook(h.Name, event)
	var has []string
	if found := pluginCommand().FindSubmatch(before); found != nil && json.Unmarshal(found[1], &has) == nil {
		words = replaced(has, words, hookAt)
	}
	script := of.Script
	if c.V2 && of.Next != "" {
		script = of.Next
	}
	return pluginRunning(script, words...)
}

// pluginCommand matches the line of a plugin that contains the command that it runs.
var pluginCommand = pattern.New(`(?m)^const COMMAND = (\[.*\])\r?$`)

// pluginRunning returns a plugin that runs a command.
func pluginRunning(script string, command ...string) ([]byte, error) {
	text, err := orchestrator.JSON(command)
	return []byte(strings.Replace(script, "const COMMAND = []\n", "const COMMAND = "+string(text)+"\n", 1)), err
}

// pluginWords occurs in every version of our plugins.
const pluginWords = "written by `mailroom connect"

// dropPlugin removes our plugin. It returns an error for a plugin that connect did not write.
func dropPlugin(before, _ []byte) ([]byte, error) {
	if len(bytes.TrimSpace(before)) > 0 && !bytes.Contains(before, []byte(pluginWords)) {
		return nil, errors.New("the file is a plugin that `mailroom connect` did not write")
	}
	return nil, nil
}
