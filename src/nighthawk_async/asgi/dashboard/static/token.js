// The token of whoever looks: known to this tab only, and to no server log.

const KEY = `nighthawk-async:token:${location.pathname}`;

export function takeTokenFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given === null) return;
  setToken(given);
  history.replaceState(null, "", location.pathname + location.search);
}

export function getToken() {
  return sessionStorage.getItem(KEY) ?? "";
}

export function setToken(token) {
  if (token) sessionStorage.setItem(KEY, token);
  else sessionStorage.removeItem(KEY);
}

export function authorization() {
  const token = getToken();
  return token ? { Authorization: `Bearer ${token}` } : {};
}
