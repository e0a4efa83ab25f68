"""Six agents, each one module: domain, api, query, simulator, tester and rewriter.

`question` makes a prompt and `read` makes a record of an answer or says what is wrong with it:
both are pure. `run` holds the only await, and returns an outcome of accepted and rejected
records. Each question is whole (a tool, a request, an act), and every model is asked the same
ones, a small model too.

May touch: the model it is handed (llm); apis, formats, store, render, prompts, checks, schemas.
Never a file, and never the network itself.
Begin with `query.py`, the shortest whole agent; then `simulator.py` and `tester.py`.
"""
