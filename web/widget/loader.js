// `/widget.js`: embeds a connection's chat in the page that contains this script. Other files come from the same
// release, by the hash in their names. This must be a classic script, which can find its own element.
(() => {
  const named = "script[data-connection-key], script[data-agent-key]";
  const own = document.currentScript ?? [...document.querySelectorAll(named)].find(({ src }) => src.endsWith("/widget.js"));
  if (!own) {
    console.error("widget.js: No script element with data-connection-key found.");
    return;
  }
  const settings = { ...own.dataset, origin: new URL(own.src).origin };
  import(new URL("{{assets}}/widget/main.js", own.src)).then(
    ({ start }) => start(settings),
    (problem) => console.error("widget.js: Couldn't load the chat.", problem),
  );
})();
