// The console logs in, and shows who is logged in.

const session = '/v1/console/session';
const stored = 'mailroom.token'; // in sessionStorage, which ends with the tab

// ask asks the daemon, and returns what it answers. A refusal is thrown, in words for a person.
async function ask(method, body) {
	const headers = { 'Content-Type': 'application/json' };
	const token = sessionStorage.getItem(stored);
	if (token) headers.Authorization = `Bearer ${token}`;
	const response = await fetch(session, { method, headers, body: body && JSON.stringify(body) });
	const answer = await response.json();
	if (!response.ok) throw new Error([answer.message, answer.hint].filter(Boolean).join('. '));
	return answer;
}

// logIn exchanges the code of the address, if there is one, and takes it out of the address.
async function logIn() {
	const code = new URLSearchParams(location.hash.slice(1)).get('code');
	if (!code) return;
	history.replaceState(null, '', location.pathname + location.search);
	sessionStorage.removeItem(stored);
	const { token } = await ask('POST', { code });
	sessionStorage.setItem(stored, token);
}

const app = document.getElementById('app');
try {
	await logIn();
	const { agent, project, expires_at } = await ask('GET');
	app.textContent = `Logged in as ${agent} in ${project}, until ${expires_at || 'the token is revoked'}.`;
} catch (error) {
	app.textContent = error.message;
}
