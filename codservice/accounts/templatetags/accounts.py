"""How people and keys are shown: `{% load accounts %}`."""

from django import template

from codservice.accounts import actor

register = template.Library()
register.filter("actor_in_words", actor.in_words)
