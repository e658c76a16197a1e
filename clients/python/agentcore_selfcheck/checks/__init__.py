"""One promise each, tried from outside."""
