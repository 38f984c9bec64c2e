from django.urls import path

from codservice.docs import views

urlpatterns = [
    path("", views.page, name="docs"),
    path("search", views.search, name="docs-search"),
    path("fr/", views.page, {"language": "fr"}, name="docs-fr"),
    path("fr/search", views.search, {"language": "fr"}),
    path("fr/<path:name>", views.page, {"language": "fr"}),
    path("ar/", views.page, {"language": "ar-dz"}, name="docs-ar"),
    path("ar/search", views.search, {"language": "ar-dz"}),
    path("ar/<path:name>", views.page, {"language": "ar-dz"}),
    path("<path:name>", views.page, name="docs-page"),
]
