package router_test

import (
	"os"
	"testing"

	"mailroom/orchestrator/orchestratortest/statements"
)

func TestMain(m *testing.M) { os.Exit(statements.Main(m)) }
