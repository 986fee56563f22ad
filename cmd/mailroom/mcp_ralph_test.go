package main

// ralphExample is document 002: each of its types with the payload that it shows, on the way that it has.
var ralphExample = example{
	vocabulary: "ralph",
	setup: []string{"agent add pm", "agent add developer", "agent add qa", "agent add watchdog",
		"setting set ralph.strict_routes on"},
	steps: []step{
		{"pm", "send", `{"to":"developer","type":"task_assign","priority":"high","payload":{
			"taskId": "feat-001",
			"title": "Feature title",
			"description": "Description...",
			"acceptanceCriteria": ["It builds"],
			"worktree": "path/to/worktree"}}`,
			`{"success":true,"id":"$task","from":"pm","to":"developer","type":"task_assign","priority":"high","payload":{
			"taskId": "feat-001",
			"title": "Feature title",
			"description": "Description...",
			"acceptanceCriteria": ["It builds"],
			"worktree": "path/to/worktree"},"timestamp":"$at","status":"pending"}`, ""},
		{"developer", "inbox", `{}`,
			`{"agent":"developer","count":1,"has_more":false,"messages":[{"id":"$task","from":"pm","to":"developer",
			"type":"task_assign","priority":"high","timestamp":"$at","status":"pending","payload":{
			"taskId": "feat-001",
			"title": "Feature title",
			"description": "Description...",
			"acceptanceCriteria": ["It builds"],
			"worktree": "path/to/worktree"}}]}`, ""},
		{"developer", "send", `{"from":"developer","to":"watchdog","type":"status_update","payload":{
			"agent": "developer",
			"status": "working",
			"taskId": "feat-001"}}`, `{"success":true,"priority":"normal"}`, ""},
		{"developer", "send", `{"to":"pm","type":"question","replyTo":"$task","payload":{
			"taskId": "feat-001",
			"question": "Question text..."}}`, `{"id":"$asked","replyTo":"$task"}`, ""},
		{"pm", "inbox", `{}`, `{"messages":[{"id":"$asked","type":"question"}]}`, ""},
		{"pm", "send", `{"to":"developer","type":"answer","replyTo":"$asked","payload":{
			"questionId": "$asked",
			"answer": "Answer text..."}}`,
			`{"replyTo":"$asked","payload":{"questionId":"$asked","answer":"Answer text..."}}`, ""},
		{"pm", "ack", `{"id":"$asked"}`, `{"success":true,"agent":"pm","file_removed":false}`, ""},
		{"developer", "send", `{"to":"qa","type":"implementation_complete","payload":{
			"taskId": "feat-001",
			"summary": "Brief summary",
			"commitHash": "abc123",
			"branch": "developer-worktree",
			"filesModified": ["file1.ts", "file2.ts"]}}`, `{"success":true,"id":"$ready"}`, ""},
		{"developer", "ack", `{"id":"$task"}`, `{"id":"$task","acknowledged_at":"*"}`, ""},
		{"qa", "inbox", `{"agent":"qa","limit":1}`,
			`{"messages":[{"id":"$ready","payload":{"filesModified":["file1.ts","file2.ts"]}}]}`, ""},
		{"qa", "send", `{"to":"developer","type":"bug_report","payload":{
			"taskId": "feat-001",
			"bugs": [
				{ "file": "file.ts", "line": 10, "issue": "Bug description" }
			]}}`, `{"payload":{"bugs":[{"file":"file.ts","line":10,"issue":"Bug description"}]}}`, ""},
		{"qa", "send", `{"to":"developer","type":"bug_report","payload":{
			"taskId": "feat-001",
			"bugs": [
				{ "file": "file.ts", "line": "10", "issue": "Bug description" }
			]}}`, `{"success":false,"error":"invalid_params","message":"payload.bugs[0].line: must be a whole number, but is \"10\"","parameter":"payload.bugs[0].line"}`, ""},
		{"qa", "send", `{"to":"pm","type":"validation_passed","payload":{
			"taskId": "feat-001",
			"results": {
				"typecheck": "pass",
				"lint": "pass",
				"test": "pass",
				"build": "pass"
			}}}`, `{"success":true}`, ""},
		{"qa", "send", `{"to":"pm","type":"bug_report","payload":{"taskId":"feat-001","bugs":[{"file":"f","line":1,"issue":"i"}]}}`,
			`{"error":"invalid_params","message":"*","parameter":"to"}`, ""},
		{"pm", "send", `{"from":"qa","to":"developer","type":"note"}`, `{"error":"permission_denied","message":"*"}`,
			""},
		{"developer", "inbox", `{}`, `{"count":2,"messages":[{"type":"answer"},{"type":"bug_report"}]}`, ""},
		{"watchdog", "inbox", `{}`,
			`{"count":1,"messages":[{"type":"status_update","payload":{"agent":"developer","status":"working","taskId":"feat-001"}}]}`, ""},
	},
}
