// What the page does with the chat: functions for the agent's client tools, and a button of its own that opens it.
window.aesChat = {
  tools: {
    // The agent's configuration names the tool `order_status` under `client_tools`; its result is whatever this returns.
    order_status: async ({ order }) => ({ order, status: "shipped", arrives: "tomorrow" }),
  },
};

addEventListener("DOMContentLoaded", () => {
  document.getElementById("ask").addEventListener("click", () => window.aesChat.open());
});
