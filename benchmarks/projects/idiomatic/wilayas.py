"""The 58 wilayas, by code and by name."""

NAMES = """
Adrar, Chlef, Laghouat, Oum El Bouaghi, Batna, Bejaïa, Biskra, Béchar, Blida, Bouira, Tamanghasset, Tebessa, Tlemcen,
Tiaret, Tizi Ouzou, Alger, Djelfa, Jijel, Sétif, Saïda, Skikda, Sidi Bel Abbès, Annaba, Guelma, Constantine, Médéa,
Mostaganem, M'Sila, Mascara, Ouargla, Oran, El Bayadh, Illizi, Bordj Bou Arréridj, Boumerdes, El Tarf, Tindouf,
Tissemsilt, El Oued, Khenchela, Souk Ahras, Tipaza, Mila, Aïn Defla, Naama, Aïn Temouchent, Ghardaïa, Relizane,
Timimoun, Bordj Badji Mokhtar, Ouled Djellal, Béni Abbès, In Salah, In Guezzam, Touggourt, Djanet, El M'Ghaier,
El Meniaa
"""
CODES = {name.casefold(): f"{code:02}" for code, name in enumerate(" ".join(NAMES.split()).split(", "), start=1)}
CODES |= {code: code for code in CODES.values()}
