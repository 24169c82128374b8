// Adds functions for the agent's client tools, and a button that opens the chat.
window.aesChat = {
  tools: {
    // The agent's `client_tools` declare the tool `order_status`. This function returns its result.
    order_status: async ({ order }) => ({ order, status: "shipped", arrives: "tomorrow" }),
  },
};

addEventListener("DOMContentLoaded", () => {
  document.getElementById("ask").addEventListener("click", () => window.aesChat.open());
});
