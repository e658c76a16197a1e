"""Commands confined by what the system has for that, behind one port."""
