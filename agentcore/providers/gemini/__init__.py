"""Google's Gemini API, spoken directly: how a request is sent, what is sent, what comes back, what the models are."""
