/* page.js - what keys, buttons and other tabs do, and the start. */

function send() {
  const text = byId('box').value, way = path();
  if (running || (!text.trim() && (chat || !way.length))) return;
  byId('box').value = '';
  grow();
  talk.title ||= text.trim().slice(0, 60);
  keepInTab('talk', talk.id);
  const t = talk, node = addNode(t, way.at(-1)?.id ?? 'root', {role: 'user', text});
  reply(t, node);
  showPast();
}

function grow() {
  const box = byId('box');
  box.style.height = 'auto';
  box.style.height = box.scrollHeight + 2 + 'px';
}

byId('ask').onsubmit = e => { e.preventDefault(); send(); };
byId('box').oninput = grow;
byId('box').onkeydown = e => {
  if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) { e.preventDefault(); send(); }
};
byId('stop').onclick = () => running?.stop.abort();
byId('shade').onclick = () => { changeSettings(s => { s.shade = !s.shade; }); show(); };
byId('gear').onclick = () => {
  const open = byId('settings').hidden;
  byId('settings').hidden = !open;
  byId('gear').setAttribute('aria-expanded', open);
};
byId('system').onchange = () => editTalk(talk, {system: byId('system').value});
byId('menu').onclick = () => toggleList(true);
byId('close').onclick = () => toggleList(false);
byId('new').onclick = () => { openTalk(newTalk()); if (!isTouch.matches) byId('box').focus(); };
byId('search').oninput = showPast;
byId('no-key').onclick = () => byId('door').close();
isNarrow.onchange = () => toggleList(false);

onkeydown = e => {
  if (e.key !== 'Escape' || byId('door').open) return;
  if (!byId('rivals').hidden) closeRivals();
  else if (byId('past').classList.contains('open')) toggleList(false);
  else running?.stop.abort();
};
onpointerdown = e => {
  if (!byId('rivals').contains(e.target)) byId('rivals').hidden = true;
  if (!byId('past').contains(e.target)) toggleList(false);
};

/* A page that is left writes what it has; what was coming in is broken off. */
function leave() {
  if (!running) return;
  const {talk: t, node} = running;
  node.beat = Date.now();
  keepTalk(t);
}
onpagehide = () => { if (running) { running.node.end = 'broken'; leave(); } };
document.onvisibilitychange = leave;

/* Another tab has written. */
onstorage = e => {
  if (e.key === 'inferflow.settings') { settings = loadSettings(); showSettings(); show(); return; }
  if (!e.key?.startsWith(TALK)) return;
  const id = e.key.slice(TALK.length), other = e.newValue && unpack(e.newValue);
  const mine = id === talk.id ? talk : talks.get(id);
  if (other && mine) join(mine, other);
  if (other) { talks.set(id, mine ?? other); kept.add(id); } else talks.delete(id);
  showPast();
  if (id === talk.id && !document.activeElement.closest('article textarea')) show();
};

async function start() {
  try { props = await (await ask('props')).json(); } catch (e) { trouble(e.message, start); return; }
  chat = !!props.chat_template;
  trouble('');
  byId('model').textContent = document.title = props.model || 'inferflow';
  byId('box').placeholder = chat ? 'Message' : 'Text to continue';
  showSettings();
  show();
}

readTalks();
talk = talks.get(tab.getItem('inferflow.talk')) ?? talk;
showPast();
show(true);
focusBox();
start();
