"""Language models behind one small protocol (``base.py``), and token-exact chats with them (``chat.py``)."""
