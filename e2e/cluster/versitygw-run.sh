#!/bin/sh
# What the start script of versitygw's image does with the variables that we set.
exec /usr/local/bin/versitygw "$VGW_BACKEND" "$VGW_BACKEND_ARG"
