// `/widget.js`: puts the chat of a connection into the page that names this script. Everything else comes from the
// same release, by the name of its hash. A classic script, so that it knows its own element.
(() => {
  const named = "script[data-connection-key], script[data-agent-key]";
  const own = document.currentScript ?? [...document.querySelectorAll(named)].find(({ src }) => src.endsWith("/widget.js"));
  if (!own) {
    console.error("widget.js: no script element with data-connection-key was found.");
    return;
  }
  const settings = { ...own.dataset, origin: new URL(own.src).origin };
  import(new URL("{{assets}}/widget/main.js", own.src)).then(
    ({ start }) => start(settings),
    (problem) => console.error("widget.js: the chat could not be loaded.", problem),
  );
})();
